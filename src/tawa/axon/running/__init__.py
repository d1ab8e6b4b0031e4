"""Axon programs on NumPy arrays, and checks of what functions are given."""

"""Runs a module of any level on the CPU."""

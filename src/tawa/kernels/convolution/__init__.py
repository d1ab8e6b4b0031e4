"""Convolutions by the sizes: which kernel, which tile, and what its elements are made of."""

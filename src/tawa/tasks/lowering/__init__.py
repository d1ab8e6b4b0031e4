"""From a program of copies and calls to kernels of the tile language."""

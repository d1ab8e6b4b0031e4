"""The vocabulary of the tile level: types, ops and their meaning on NumPy."""

"""Functions of single elements: types, meaning on NumPy, text in CUDA C++."""

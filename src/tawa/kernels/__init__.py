"""Kernels as a library, on the public API only: each with a reference and configurations."""

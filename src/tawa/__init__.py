"""Tawa: sequential tile kernels in Python, compiled to warp-specialised GPU code."""

__version__ = "0.1.0"

"""Timestamps in a kernel: the points of its program that are recorded."""

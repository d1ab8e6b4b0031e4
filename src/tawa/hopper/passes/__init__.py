"""Passes from hopper IR to hopper IR."""

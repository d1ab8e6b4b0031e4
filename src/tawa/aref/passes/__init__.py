"""Passes from aref IR to aref IR."""

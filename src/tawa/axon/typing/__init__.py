"""Axon as a typed language: syntax, inference, errors."""

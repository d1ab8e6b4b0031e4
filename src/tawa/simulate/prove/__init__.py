"""Proofs of a kernel's communication for every launch at once."""

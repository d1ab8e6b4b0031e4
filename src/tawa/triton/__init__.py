"""Tawa beside Triton: takes over the launches of an installed one, and stands for a missing one."""

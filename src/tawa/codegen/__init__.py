"""Aref to hopper: layouts become registers, rings become shared memory and barriers."""

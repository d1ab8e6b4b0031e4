"""The time that a kernel takes: multiprocessors, engines and memory as events."""

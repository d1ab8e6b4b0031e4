"""The program that a mapping makes of tasks: copies, calls and loops, and what waits for what."""

"""Facts about tile programs: axes, pointers, zeros, work of a program."""

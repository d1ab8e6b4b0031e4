"""CuPPL as a typed language: syntax, built-ins, type classes, errors."""

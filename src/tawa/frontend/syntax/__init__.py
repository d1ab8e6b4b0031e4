"""Python's statements and expressions as tile IR."""

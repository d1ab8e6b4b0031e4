"""A kernel's source: its function, parameters, globals, and what it depends on."""

"""What a compilation decided, as data: no IR, no compiler, only names, numbers and places."""

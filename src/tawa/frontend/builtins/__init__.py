"""What the language's builtins mean: one function for each."""

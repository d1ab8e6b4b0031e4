"""Commands, pictures, formatting and the language server."""

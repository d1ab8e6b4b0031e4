"""The CUDA back end: source text from the core, and the host's side of running it."""

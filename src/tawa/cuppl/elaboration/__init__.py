"""From typed syntax to the core: monomorphic, first order."""

"""Whether a kernel's communication is safe in every interleaving."""

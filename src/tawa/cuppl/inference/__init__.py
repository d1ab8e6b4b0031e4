"""Inference methods: what runs the compiled program, and what comes out."""

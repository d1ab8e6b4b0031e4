"""Sizes and shapes: polynomials, equations between them, constraints, the solver."""

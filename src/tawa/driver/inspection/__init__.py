"""What can be asked of a function or a compiled kernel without knowing the levels.

Reports and tasks ask here: what a CTA takes, which matrix instructions came of which lines, the
lines of CUDA C++ with the ops that wrote them, and what a tile program computes.
"""

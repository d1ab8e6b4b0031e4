"""Loops of the aref level as software pipelines: dependence graph, modulo schedule, depths."""

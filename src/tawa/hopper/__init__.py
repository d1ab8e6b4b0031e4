"""The hopper level: every decision visible, one op a line or a few of CUDA C++."""

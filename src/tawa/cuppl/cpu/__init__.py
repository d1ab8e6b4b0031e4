"""The core as LLVM IR, and the machine code and memory that it runs with."""

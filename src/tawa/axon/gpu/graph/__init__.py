"""What a call computes: tensors of known sizes and how they come about, cut into kernels.

A traced graph (`nodes`) is rewritten (`lower`), cut into groups that are a kernel each (`fusion`),
of which some compute again what others would have to write (`recompute`), and placed (`memory`).
"""

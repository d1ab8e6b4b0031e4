"""Facts about aref programs: layouts, operands, ranges, sizes of slots."""

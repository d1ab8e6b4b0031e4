"""One description of a chip: limits, costs and what its instructions can do."""

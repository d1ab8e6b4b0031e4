"""What users write: tasks, privileges, partitions and mappings, and what can be wrong with them."""

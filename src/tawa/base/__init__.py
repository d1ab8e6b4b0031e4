"""What every level shares: errors, spans, element types, layouts, targets and options."""

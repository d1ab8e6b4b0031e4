"""What the levels share of the IR: elementwise ops, spans, loops, verification."""

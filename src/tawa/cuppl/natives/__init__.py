"""Inner loops of inference, as natives that any back end compiles."""

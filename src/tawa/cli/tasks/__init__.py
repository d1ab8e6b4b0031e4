"""`tawa tasks`: task programs from the command line."""

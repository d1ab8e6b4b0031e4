"""What joins the levels: the pipeline of passes, the compile cache, `@tawa.jit`."""

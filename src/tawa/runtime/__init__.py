"""Compile, load and launch cubins: NVRTC, the driver, caches, arrays. Knows no IR."""

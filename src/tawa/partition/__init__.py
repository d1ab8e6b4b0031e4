"""Tile to aref: who loads, who computes, and the rings between them."""

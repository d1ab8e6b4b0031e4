"""The tile level: what a kernel computes, one sequential thread of control per program instance."""

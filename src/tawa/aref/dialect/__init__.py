"""The vocabulary of the aref level: rings, puts and gets, products in flight."""

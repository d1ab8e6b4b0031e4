"""Where loads come from and when: before branches and products, once for many, several at once."""

"""The first-order core that both back ends read."""

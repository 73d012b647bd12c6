"""How much an account may ask: per account and not per key, counted over all processes."""

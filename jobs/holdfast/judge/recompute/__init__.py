"""Recomputes results from the whole input at once."""

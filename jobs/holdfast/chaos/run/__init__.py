"""A run from its start to its verdict."""

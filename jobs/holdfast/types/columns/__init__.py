"""Columns: their types, the schemas that registries keep of them, and columns of byte strings."""

"""Batches of a query: where their tasks run, how they are cut, and how they are tried again."""

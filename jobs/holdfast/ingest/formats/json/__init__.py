"""JSON: a chunk at a time where that is exact, otherwise a record at a time."""

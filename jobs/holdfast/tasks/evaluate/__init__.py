"""Columns after the state: results, event times, keys, and the records of a sink."""

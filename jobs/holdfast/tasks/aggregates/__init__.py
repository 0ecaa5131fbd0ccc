"""Aggregate functions, computed in columns; one file per family."""

"""Checkers: each one looks for one kind of anomaly in the evidence."""

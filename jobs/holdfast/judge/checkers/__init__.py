"""Checkers: each looks at the evidence for one kind of anomaly."""

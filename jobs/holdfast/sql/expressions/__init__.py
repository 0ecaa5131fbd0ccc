"""Expressions: names resolved, types checked, text made for an engine."""

"""Statements → `Topology`: one module for each kind of SELECT."""

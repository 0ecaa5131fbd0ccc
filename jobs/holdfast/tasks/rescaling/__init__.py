"""Moves a query's state to another number of state partitions while the query runs (ADR 51)."""

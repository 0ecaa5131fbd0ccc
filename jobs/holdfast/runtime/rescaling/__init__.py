"""Changes the number of state partitions of a running query (ADR 51)."""

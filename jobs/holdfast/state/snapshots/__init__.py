"""Snapshots: copies of stores in an archive, from which a lost store is restored."""

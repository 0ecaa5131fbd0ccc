"""A Topology as text for people."""

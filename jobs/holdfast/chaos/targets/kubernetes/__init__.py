"""Pods of a cluster, and what can be done to them."""

"""Joins: which there are, how their conditions are read, and the steps they become."""

"""Deployments on this machine: a supervised driver, and query servers beside it."""

"""Processes of this machine, and what can be done to them."""

"""Faults: their names, when they come, and the nemesis that injects them."""

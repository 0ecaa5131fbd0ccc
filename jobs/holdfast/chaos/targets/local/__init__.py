"""Processes of this machine, and the faults they can suffer."""

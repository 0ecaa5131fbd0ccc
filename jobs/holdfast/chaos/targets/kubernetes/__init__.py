"""Pods of a cluster, and the faults they can suffer."""

"""The monitoring of a running job: status, health, metrics and lag."""

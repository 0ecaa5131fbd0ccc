"""Checks of a job before its deployment, and of a deployed job."""

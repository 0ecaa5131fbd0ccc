"""Savepoints of a running job, and the start of a job from one (ADR 50)."""

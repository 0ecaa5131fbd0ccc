"""Processors of session windows."""

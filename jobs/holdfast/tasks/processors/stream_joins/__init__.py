"""Processors of stream-stream joins."""

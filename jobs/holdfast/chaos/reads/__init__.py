"""Reads during a run: sessions that ask query servers, and whether the answers are right."""

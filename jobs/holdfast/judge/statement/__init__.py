"""Statements in the judge's own understanding: their text, translated to plain SQL."""

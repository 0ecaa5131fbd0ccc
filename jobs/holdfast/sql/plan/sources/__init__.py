"""Statements about streams and tables themselves: declared, written, changed, dropped."""

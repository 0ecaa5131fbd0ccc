"""Processors of joins with tables, and of tables' filters and changes."""

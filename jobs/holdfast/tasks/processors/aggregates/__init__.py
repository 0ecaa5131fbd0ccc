"""Processors of GROUP BY, windowed or not."""

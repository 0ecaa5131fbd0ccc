"""Scalar functions in Python, where DuckDB does not behave like ksqlDB."""

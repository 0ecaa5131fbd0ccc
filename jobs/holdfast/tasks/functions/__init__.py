"""Scalar functions in Python: what neither Spark SQL nor DuckDB does as ksqlDB does it."""

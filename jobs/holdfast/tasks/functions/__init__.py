"""Scalar functions in Python, where neither Spark SQL nor DuckDB behaves like ksqlDB."""

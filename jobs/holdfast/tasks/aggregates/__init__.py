"""Aggregate functions: partials in Spark, merge in columns, one file per family."""

"""Stores in a database that executors share: fenced caches of rows; Kafka stays the truth."""

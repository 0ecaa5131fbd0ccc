"""Kafka to Arrow: the plan of a query's batches, the reading of records, and their formats.

Nothing is imported here so that the formats can be used without a Kafka client.
"""

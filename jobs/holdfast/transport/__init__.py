"""Kafka clients: the only folder that imports confluent_kafka, and the border of its errors."""

"""Kafka clients: the only folder that imports confluent_kafka; it translates its errors."""

"""Commands about Kafka: a local broker, records, rights, a self-test."""

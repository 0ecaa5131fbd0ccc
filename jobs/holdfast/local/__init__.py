"""A local substitute for a cluster: a real Kafka broker on one machine."""

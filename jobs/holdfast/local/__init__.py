"""Parts that stand in for a cluster on one machine: a real Kafka broker."""

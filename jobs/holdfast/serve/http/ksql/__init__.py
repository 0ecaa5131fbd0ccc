"""ksqlDB's REST API."""

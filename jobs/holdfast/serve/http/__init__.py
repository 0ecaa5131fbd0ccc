"""The HTTP side of a query server: ksqlDB's REST API, our own, and access control."""

"""What clients see of a query server: ksqlDB's REST API, our own, and who may use them."""

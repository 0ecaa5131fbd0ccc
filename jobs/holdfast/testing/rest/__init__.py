"""ksqlDB's REST cases: what a query server answers once a case's records have been processed."""

"""ksqlDB's REST cases: the answers of a query server after a case's records were processed."""

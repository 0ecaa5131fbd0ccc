"""Commands of query servers and their clients."""

"""The proof: break a running job, read from it meanwhile, then judge it, all from outside."""

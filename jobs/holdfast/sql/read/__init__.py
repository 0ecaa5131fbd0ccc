"""SELECT → `Read`: pull and push queries."""

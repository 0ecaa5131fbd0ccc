"""Results computed again, from all of the input at once."""

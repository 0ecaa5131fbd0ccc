"""Commands about a file of statements: check, explain, test, run."""

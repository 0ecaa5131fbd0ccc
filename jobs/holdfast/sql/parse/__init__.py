"""Text → statements: words, grammar, and the values that statements are.  Nothing is looked up."""

"""Statements as the judge understands them: their text, translated to plain SQL."""

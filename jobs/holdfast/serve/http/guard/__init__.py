"""Who may ask, how often and how much, and the record of it."""

"""Java's regular expressions and date patterns, as ksqlDB's functions take them."""

"""`holdfast test`: statements, input records and expected output records, compared."""

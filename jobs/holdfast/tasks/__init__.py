"""State tasks: the work of an executor on one state partition and micro-batch."""

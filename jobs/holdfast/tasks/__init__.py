"""State tasks: what runs on an executor for one state partition and micro-batch."""

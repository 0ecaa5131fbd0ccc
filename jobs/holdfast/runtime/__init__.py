"""The Spark side of a job: session, placement, micro-batches, the main loop."""

"""The Spark side of a job: context, placement, micro-batches, the main loop."""

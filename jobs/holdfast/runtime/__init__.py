"""The Spark side: session, placement, micro-batches, the job."""

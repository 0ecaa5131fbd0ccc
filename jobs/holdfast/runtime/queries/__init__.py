"""The queries of a running job: their start, their batches, and the commit of a batch."""

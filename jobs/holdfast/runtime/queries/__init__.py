"""The queries of a running job: where they start, what a batch is, and how it is committed."""

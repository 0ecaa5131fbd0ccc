"""What happened in a run, as it was written down."""

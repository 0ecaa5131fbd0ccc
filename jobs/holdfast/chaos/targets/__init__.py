"""Places where a job runs, as a nemesis sees them."""

"""Where a job runs, as a nemesis sees it."""

"""Commands about deployed jobs."""

"""Verify: was it worth it?  A second survey against the first one and the plan."""

"""Plan: what to change, from a survey and a policy.  Pure."""

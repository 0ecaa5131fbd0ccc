"""Is a job fit to be deployed, and does a deployed one do what it should?"""

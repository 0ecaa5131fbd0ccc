"""The servers of a job: which server holds which partition, which one answers, and how they query
each other.
"""

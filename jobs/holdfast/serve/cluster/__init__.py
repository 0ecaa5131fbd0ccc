"""The servers of a job: who holds what, who answers, and how they ask each other."""

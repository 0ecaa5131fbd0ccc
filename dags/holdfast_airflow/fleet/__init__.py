"""A fleet of jobs that files declare: what is missing or differs is deployed."""

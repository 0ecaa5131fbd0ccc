"""Scripts that a chaos run executes inside a job's pods (`chaos.targets.kubernetes.scripts`)."""

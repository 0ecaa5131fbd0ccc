"""What chaos runs inside a job's pods, with their Python (`deploy.kube_scripts` names it)."""

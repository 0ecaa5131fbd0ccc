"""Deployments on Kubernetes: Helm releases of the chart, and requests to the API."""

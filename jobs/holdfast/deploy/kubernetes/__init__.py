"""Deployments on Kubernetes: releases of the Helm chart, and what the cluster is asked."""

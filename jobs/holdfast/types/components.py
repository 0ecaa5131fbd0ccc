"""The components of a job and its platform that commands can list and chaos can break."""

__all__ = ["BROKER", "DRIVER", "EXECUTOR", "SCHEDULER", "SERVER", "SNAPSHOTS", "TOPIC"]

DRIVER, EXECUTOR, BROKER, SCHEDULER = "driver", "executor", "broker", "scheduler"
SERVER = "server"  # a query server
SNAPSHOTS = "snapshot-store"  # the folder of snapshot.uri
TOPIC = "topic"  # an input topic of the job
"""Supported by every target; on Kubernetes any other label value is a component, too."""

"""The components of a job and its platform that commands can list and chaos can break."""

__all__ = [
    "BROKER",
    "DRIVER",
    "EXECUTOR",
    "QUERY",
    "REMOTE_STORE",
    "SCHEDULER",
    "SERVER",
    "SNAPSHOTS",
    "STANDBY",
    "TOPIC",
]

DRIVER, EXECUTOR, BROKER, SCHEDULER = "driver", "executor", "broker", "scheduler"
SERVER = "server"  # a query server
SNAPSHOTS = "snapshot-store"  # the folder of snapshot.uri
REMOTE_STORE = "remote-store"  # the database of state.remote.uri
TOPIC = "topic"  # an input topic of the job
STANDBY = "standby"  # the copies of state partitions, and their owners
QUERY = "query"  # one that keeps state
"""Supported by every target; on Kubernetes any other label value is a component, too."""

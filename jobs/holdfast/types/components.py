"""The components of a job and its platform that commands can list and chaos can break."""

__all__ = ["BROKER", "DRIVER", "EXECUTOR", "SCHEDULER", "SERVER", "TOPIC"]

DRIVER, EXECUTOR, BROKER, SCHEDULER = "driver", "executor", "broker", "scheduler"
SERVER = "server"  # a query server
TOPIC = "topic"  # an input topic of the job
"""Supported by every target; on Kubernetes any other label value is a component, too."""

"""The components of a job and of its platform that can be found, shown and broken."""

__all__ = ["BROKER", "DRIVER", "EXECUTOR", "SCHEDULER", "SERVER", "TOPIC"]

DRIVER, EXECUTOR, BROKER, SCHEDULER = "driver", "executor", "broker", "scheduler"
SERVER = "server"  # a query server
TOPIC = "topic"  # an input topic of the job
"""Every target knows these; on Kubernetes any other label value is a component as well."""

"""Versions of Holdfast's own downloads; Python packages are in the lock files."""

from __future__ import annotations

__all__ = [
    "JAVA_VERSION_MIN",
    "KAFKA_VERSION",
    "LOG4J_VERSION",
    "REGISTRY_SHA256",
    "REGISTRY_VERSION",
    "SCALA_VERSION",
]

KAFKA_VERSION = "4.3.1"
SCALA_VERSION = "2.13"  # Kafka's server is published for this Scala only
LOG4J_VERSION = "2.25.4"  # the version Kafka was built with; log4j-slf4j-impl must match it
JAVA_VERSION_MIN = 17  # required by Kafka's broker and by Spark

REGISTRY_VERSION = "3.0.9"  # Apicurio Registry; the last one on Maven Central for Java 17
# Of apicurio-registry-app-<version>-all.tar.gz, as `sha256sum` writes it.
REGISTRY_SHA256 = "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43"

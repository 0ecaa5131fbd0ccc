"""The files that a local broker starts with: server.properties and its log settings."""

from __future__ import annotations

from pathlib import Path

__all__ = ["controller_properties", "log_config", "server_properties"]

# The settings in which a single broker on a small machine differs from a cluster.
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",  # a misspelt topic must not look like an empty one
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # Event times of real data lie years back; only a topic's own retention may expire them.
    "log.retention.ms": "-1",
    "log.retention.check.interval.ms": "30000",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "log.cleaner.backoff.ms": "5000",
    # Transactions of a killed producer are aborted soon after their timeout.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # A single broker has no other to hand its partitions to: without a leader they would only lose
    # transaction markers (`broker_session`), for example after this process was paused.
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3600000",
    "num.network.threads": "2",
    "num.io.threads": "4",
}


def server_properties(data: Path, port: int, controller_port: int) -> str:
    """The text of server.properties: one node in both roles, on the loopback interface only."""
    ours = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "log.dirs": str(data),
    }
    return "".join(f"{key}={value}\n" for key, value in (_SETTINGS | ours).items())


def controller_properties(data: Path, controller_port: int, session_timeout_ms: int) -> str:
    """The text for the same node as a controller only, to end a killed broker's session."""
    ours = {
        "process.roles": "controller",
        "listeners": f"CONTROLLER://127.0.0.1:{controller_port}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "log.dirs": str(data),
        "broker.heartbeat.interval.ms": str(session_timeout_ms // 2),
        "broker.session.timeout.ms": str(session_timeout_ms),
    }
    settings = {k: v for k, v in _SETTINGS.items() if k != "inter.broker.listener.name"} | ours
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def log_config(file: Path) -> str:
    """Log4j settings: one rolling file of at most 3 x 10 MB."""
    return f"""status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {file}
appender.file.filePattern = {file}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = [%d] %p %m (%c)%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
"""

"""The settings of a job, typed.  `holdfast.config.properties` reads and validates them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.types.left_out import WarnShares

__all__ = [
    "IngestSettings",
    "PlacementSettings",
    "RegistrySettings",
    "RemoteSettings",
    "RocksDbSettings",
    "ServeSettings",
    "Settings",
    "SnapshotSettings",
    "StateSettings",
    "TracingSettings",
]


@dataclass(frozen=True)
class RocksDbSettings:
    """RocksDB tuning; memory limits are per executor process, shared by all its stores."""

    block_cache_bytes: int = 128 << 20
    write_buffer_bytes: int = 64 << 20  # all memtables together
    memtable_bytes: int = 16 << 20
    compression: str = "lz4"  # none, snappy, lz4, zstd
    bloom_bits_per_key: int = 10
    block_bytes: int = 16 << 10
    background_jobs: int = 2


@dataclass(frozen=True)
class RemoteSettings:
    """The database of the remote backend, and how executors log in there."""

    uri: str = ""
    user: str = ""  # empty: the database's default user
    password_file: str = ""  # on the executors; empty: no password
    timeout_ms: int = 10_000  # of a connection, and of an answer


@dataclass(frozen=True)
class StateSettings:
    """Where and how state is kept."""

    backend: str = "rocksdb"  # rocksdb, memory, remote
    dir: str = ""  # folder of the volumes; empty: <home>/state
    partitions: int = 8
    changelog_replicas: int = -1  # -1: the broker's default
    delete_retention_ms: int = 86_400_000  # changelog topic's delete.retention.ms
    on_changelog_loss: str = "fail"  # fail, rebuild
    acceptable_recovery_lag: int = 10_000  # changelog records
    cleanup_delay_ms: int = 600_000  # after it, a store that no executor wants is deleted
    restore_batch_records: int = 4_000
    rocksdb: RocksDbSettings = field(default_factory=RocksDbSettings)
    remote: RemoteSettings = field(default_factory=RemoteSettings)

    @property
    def on_volumes(self) -> bool:
        """Whether executors keep the stores on their volumes, so that it matters where they run."""
        return self.backend == "rocksdb"

    @property
    def outlives_executors(self) -> bool:
        """Whether a store is still there when its executor is gone."""
        return self.backend != "memory"


@dataclass(frozen=True)
class SnapshotSettings:
    """Where snapshots of stores and savepoints are kept, and how often snapshots are taken."""

    uri: str = ""  # empty: none are taken, or used
    interval_ms: int = 600_000
    retained: int = 2  # of each state partition
    start_from: str = ""  # APPLICATION/NAME: the savepoint that the job begins with
    topics: str = "same"  # same, copied: what its offsets are of


@dataclass(frozen=True)
class IngestSettings:
    """How source topics are read."""

    auto_offset_reset: str = "earliest"
    max_offsets_per_trigger: int = 2_000_000
    batch_target_ms: int = 3_000
    trigger_interval_ms: int = 0
    fail_on_data_loss: bool = True
    on_undecodable: str = "dead-letter"  # dead-letter, fail
    dead_letter_topic: str = ""  # empty: <application.id>-dead-letter


@dataclass(frozen=True)
class PlacementSettings:
    """Number of executors, copies of their state, and how long a state task waits for its owner."""

    executors: int = 2
    keep: int = 0  # executors that keep state, 0: all; the others are drained
    standbys: int = 0  # copies of each state partition beside its owner
    executor_memory_mb: int = 1024
    driver_memory_mb: int = 1024
    locality_wait_ms: int = 300
    wait_ms: int = 30_000  # placement.wait


@dataclass(frozen=True)
class ServeSettings:
    """The folder of a query server's copies, and the limits for queries.

    Attributes:
        dir: folder of the copies, with a subfolder for each server; empty: <home>/serve.
        timeout_ms: time limit of a pull query.
        keys_max: keys that one statement may look up.
        rows_max: rows of one answer to a pull query.
        bytes_max: Arrow memory of an aggregation over a scan, in bytes.
        threads: threads that decode and evaluate; they bound how many queries compute at a time.
        memory_bytes: memory of a worker; it evaluates one query at a time or plans one statement.
        planning_ms: time for a worker to parse or plan one statement.
        open_queries: answers under way for all clients together; a push query counts as one.
        tail_bytes_max: recent changes kept for the subscribers of one partition, in bytes; a
            subscriber further behind reads the changelog again.
        send_ms: time for a client to take what was sent; a slower client is cut off.
        heartbeat_ms: after this time without a row, a push query sends a heartbeat.
        request_bytes: limit of a request's body.
    """

    dir: str = ""
    timeout_ms: int = 30_000
    keys_max: int = 10_000
    rows_max: int = 1_000_000
    bytes_max: int = 256 << 20
    threads: int = 2
    memory_bytes: int = 1 << 30
    planning_ms: int = 5_000
    open_queries: int = 10_000
    tail_bytes_max: int = 4 << 20
    send_ms: int = 30_000
    heartbeat_ms: int = 15_000
    request_bytes: int = 1 << 20


@dataclass(frozen=True)
class RegistrySettings:
    """The schema registry; `url` empty: there is none."""

    url: str = ""
    user_info: str = field(default="", repr=False)  # name:password
    token: str = field(default="", repr=False)
    ca: str = ""
    certificate: str = ""
    key: str = ""
    key_password: str = field(default="", repr=False)
    timeout_ms: int = 10_000

    def client(self) -> dict[str, str]:
        """The properties of the registry's client; empty without a registry."""
        found = {
            "url": self.url,
            "basic.auth.user.info": self.user_info,
            "bearer.auth.token": self.token,
            "ssl.ca.location": self.ca,
            "ssl.certificate.location": self.certificate,
            "ssl.key.location": self.key,
            "ssl.key.password": self.key_password,
            "request.timeout.ms": str(self.timeout_ms),
        }
        return {name: value for name, value in found.items() if value} if self.url else {}


@dataclass(frozen=True)
class TracingSettings:
    """Where spans of batches are exported to; `endpoint` empty: nowhere."""

    endpoint: str = ""
    sample_share: float = 1.0  # of batches
    links: int = 128  # the most of a batch; OpenTelemetry keeps as many by default

    @property
    def links_read(self) -> int:
        """How many links are read from the headers of records, at most; 0: headers are not read."""
        return self.links if self.endpoint and self.sample_share else 0


@dataclass(frozen=True)
class Settings:
    """Everything one job needs beside its statements."""

    application_id: str
    bootstrap_servers: str = "localhost:9092"
    # further librdkafka properties; some are secret
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    home: str = ".holdfast"  # folder of all local files: state, run files, logs
    transaction_timeout_ms: int = 60_000
    retry_timeout_ms: int = 300_000  # how long a batch is retried before the job gives up
    lease: bool = True  # refuse to start while another driver runs the job
    metrics_port: int = 0  # 0: any free port
    functions: tuple[str, ...] = ()  # Python files that register aggregates
    master: str = ""  # empty: local-cluster with `executors` processes
    spark_secret_file: str = ""  # empty: one is made up for each start
    registry: RegistrySettings = field(default_factory=RegistrySettings)
    state: StateSettings = field(default_factory=StateSettings)
    snapshots: SnapshotSettings = field(default_factory=SnapshotSettings)
    ingest: IngestSettings = field(default_factory=IngestSettings)
    placement: PlacementSettings = field(default_factory=PlacementSettings)
    serve: ServeSettings = field(default_factory=ServeSettings)
    warn: WarnShares = field(default_factory=WarnShares)
    tracing: TracingSettings = field(default_factory=TracingSettings)

    def client(self) -> dict[str, str]:
        """The librdkafka properties common to every client of the job."""
        return {"bootstrap.servers": self.bootstrap_servers, **self.kafka}

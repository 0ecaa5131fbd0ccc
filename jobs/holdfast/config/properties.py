"""The registry of properties: their names, kinds, defaults, meaning and place in `Settings`.

A name is Kafka Streams' or ksqlDB's where one exists.  The defaults are those of the dataclasses
in `holdfast.config.settings`; they are written nowhere else.
"""

from __future__ import annotations

from holdfast.config import values
from holdfast.config.property import Property
from holdfast.config.registry_properties import REGISTRY_PROPERTIES
from holdfast.config.serve_properties import SERVE_PROPERTIES
from holdfast.config.settings import Settings
from holdfast.config.statement_properties import STATEMENT_PROPERTIES

__all__ = [
    "KAFKA_PREFIX",
    "KAFKA_RESERVED",
    "KSQL_PREFIX",
    "PROPERTIES",
    "default_text",
]

KAFKA_PREFIX = "kafka."
KSQL_PREFIX = "ksql.streams."  # ksqlDB's own spelling of Streams properties in SET
# Exactly-once depends on these; each maps to what to do instead.
KAFKA_RESERVED = {
    "acks": "Holdfast's producers need `all`",
    "auto.offset.reset": "set `auto.offset.reset`",
    "bootstrap.servers": "set `bootstrap.servers`",
    "enable.auto.commit": "Holdfast commits offsets with its transactions",
    "enable.auto.offset.store": "Holdfast commits offsets with its transactions",
    "enable.idempotence": "Holdfast's producers need `true`",
    "enable.partition.eof": "Holdfast reads up to offsets it knows",
    "group.id": "it follows from `application.id`",
    "isolation.level": "Holdfast reads committed records only",
    "partitioner": "Holdfast partitions as Java producers do",
    "transaction.timeout.ms": "set `transaction.timeout.ms`",
    "transactional.id": "it follows from `application.id`",
}

_DAY_MS = 86_400_000
_GIB = 1 << 30
# Spark refuses less than 450 MiB without one survivor space (UnifiedMemoryManager, SPARK-12081).
_SPARK_HEAP_MIN_MB = 460


def _job() -> tuple[Property, ...]:
    return (
        Property(
            "application.id",
            ("application_id",),
            values.name(100),
            "name of the job: prefix of its changelogs, transactional ids and groups",
            default="the SQL file's name",
        ),
        Property(
            "bootstrap.servers",
            ("bootstrap_servers",),
            values.servers(),
            "the Kafka brokers to start from",
        ),
        Property(
            "processing.guarantee",
            (),
            values.choice("exactly_once_v2"),
            "Holdfast knows no weaker guarantee",
            default="exactly_once_v2",
        ),
        Property("home", ("home",), values.text("a folder"), "folder of all local files"),
        Property(
            "functions",
            ("functions",),
            values.paths(),
            "Python files that register user-defined functions and aggregates",
        ),
        Property(
            "metrics.port",
            ("metrics_port",),
            values.whole(0, 65_535),
            "port of the driver's Prometheus endpoint; 0 takes a free one",
        ),
        Property(
            "driver.lease",
            ("lease",),
            values.flag(),
            "refuse to start while another driver runs the job; false, if the brokers take no "
            "session.timeout.ms of 6 s: two drivers then fence each other",
        ),
        Property(
            "transaction.timeout.ms",
            ("transaction_timeout_ms",),
            values.whole(1_000, 900_000),
            "the broker aborts a transaction that stays open for longer",
        ),
        Property(
            "task.timeout.ms",
            ("retry_timeout_ms",),
            values.whole(0, 86_400_000),
            "how long a failing micro-batch is retried before the job gives up",
        ),
    )


def _ingest() -> tuple[Property, ...]:
    return (
        Property(
            "auto.offset.reset",
            ("ingest", "auto_offset_reset"),
            values.choice("earliest", "latest"),
            "where a new job starts to read its topics",
        ),
        Property(
            "max.offsets.per.trigger",
            ("ingest", "max_offsets_per_trigger"),
            values.whole(0, 1_000_000_000),
            "largest micro-batch of a query, in offsets over all topic partitions; 0 for no limit",
        ),
        Property(
            "batch.target.ms",
            ("ingest", "batch_target_ms"),
            values.whole(0, 3_600_000),
            "target duration of a micro-batch of a query that is behind: its size follows from the "
            "measured rate; 0, or with trigger.interval.ms: as large as the limit allows",
        ),
        Property(
            "trigger.interval.ms",
            ("ingest", "trigger_interval_ms"),
            values.whole(0, 3_600_000),
            "start a micro-batch at most this often; 0: as soon as the last one ends",
        ),
        Property(
            "fail.on.data.loss",
            ("ingest", "fail_on_data_loss"),
            values.flag(),
            "stop when offsets to read were deleted, rather than skip to the earliest one left",
        ),
        Property(
            "deserialization.error",
            ("ingest", "on_undecodable"),
            values.choice("dead-letter", "fail"),
            "what to do with a record that cannot be decoded",
        ),
        Property(
            "dead.letter.topic",
            ("ingest", "dead_letter_topic"),
            values.name(249),
            "topic for records that cannot be decoded",
            default="<application.id>-dead-letter",
        ),
    )


def _warn() -> tuple[Property, ...]:
    kinds = {
        "late": "dropped as late",
        "null.key": "dropped for a NULL in its key",
        "dead.letter": "set aside as dead letters",
    }
    return tuple(
        Property(
            f"{kind}.warn.share",
            ("warn", kind.replace(".", "_")),
            values.number(0, 1),
            f"the largest part of a query's input that may be {what} without a warning; 1: never "
            "warn",
        )
        for kind, what in kinds.items()
    )


def _state() -> tuple[Property, ...]:
    return (
        Property(
            "state.backend",
            ("state", "backend"),
            values.choice("rocksdb", "memory", "remote"),
            "where the stores live: on executors' volumes, in their memory (restored from the "
            "changelog at every start), or in a database (state.remote.uri)",
        ),
        Property(
            "state.dir",
            ("state", "dir"),
            values.text("a folder"),
            "folder of the stores",
            default="<home>/state",
        ),
        Property(
            "state.partitions",
            ("state", "partitions"),
            values.whole(1, 1_024),
            "state partitions of a new table; `holdfast rescale` changes those of a running query",
        ),
        Property(
            "replication.factor",
            ("state", "changelog_replicas"),
            values.whole(-1, 32),
            "replicas of topics that Holdfast creates; -1 for the broker's default",
        ),
        Property(
            "delete.retention.ms",
            ("state", "delete_retention_ms"),
            values.whole(0, 3_650 * _DAY_MS),
            "how long a changelog keeps tombstones; a store away longer is restored in full",
        ),
        Property(
            "on.changelog.loss",
            ("state", "on_changelog_loss"),
            values.choice("fail", "rebuild"),
            "when a changelog is gone: stop, or recompute the table from its source",
        ),
        Property(
            "acceptable.recovery.lag",
            ("state", "acceptable_recovery_lag"),
            values.whole(0, 1_000_000_000_000),
            "changelog records a store may be behind and still be restored on another executor",
        ),
        Property(
            "state.cleanup.delay.ms",
            ("state", "cleanup_delay_ms"),
            values.whole(0, 1 << 40),
            "when a store is deleted that is neither an owner's nor a standby any more",
        ),
        Property(
            "restore.batch.records",
            ("state", "restore_batch_records"),
            values.whole(1, 10_000_000),
            "records written to a store at once while it is restored; fewer where they make 32 MB",
        ),
    )


def _remote() -> tuple[Property, ...]:
    def at(field: str) -> tuple[str, ...]:
        return ("state", "remote", field)

    return (
        Property(
            "state.remote.uri",
            at("uri"),
            values.database(),
            "the database of state.backend=remote; rediss speaks TLS, as DynamoDB does",
            default="none",
        ),
        Property(
            "state.remote.user",
            at("user"),
            values.text("a name"),
            "as whom executors log in there (Redis)",
            default="the database's default user",
        ),
        Property(
            "state.remote.password.file",
            at("password_file"),
            values.text("a path"),
            "file with the password, on the executors, which read it at every opening of a store "
            "(Redis)",
            default="none",
        ),
        Property(
            "state.remote.timeout.ms",
            at("timeout_ms"),
            values.whole(100, 600_000),
            "how long an executor waits for the database's answer before the batch is tried again",
        ),
    )


def _snapshots() -> tuple[Property, ...]:
    return (
        Property(
            "snapshot.uri",
            ("snapshots", "uri"),
            values.place("file", "s3", "gs", "hdfs", "abfs"),
            "where snapshots of the stores are kept, from which a lost store is restored; "
            "credentials are taken from the environment",
            default="none",
        ),
        Property(
            "snapshot.interval.ms",
            ("snapshots", "interval_ms"),
            values.whole(1_000, 30 * _DAY_MS),
            "how often a snapshot of each state partition is taken, if it has changed",
        ),
        Property(
            "snapshot.retained",
            ("snapshots", "retained"),
            values.whole(1, 1_000),
            "snapshots of each state partition that are kept",
        ),
        Property(
            "savepoint.from",
            ("snapshots", "start_from"),
            values.savepoint(),
            "the savepoint in snapshot.uri with whose tables and offsets the job begins at its "
            "first start",
            default="none",
        ),
        Property(
            "savepoint.topics",
            ("snapshots", "topics"),
            values.choice("same", "copied"),
            "copied: the source topics are copies that keep offsets, as in another cluster that is "
            "linked to the first one",
        ),
    )


def _rocksdb() -> tuple[Property, ...]:
    def at(field: str) -> tuple[str, ...]:
        return ("state", "rocksdb", field)

    return (
        Property(
            "rocksdb.block.cache.bytes",
            at("block_cache_bytes"),
            values.whole(1 << 20, 1_024 * _GIB),
            "block cache of an executor, shared by all its stores",
        ),
        Property(
            "rocksdb.write.buffer.bytes",
            at("write_buffer_bytes"),
            values.whole(1 << 20, 1_024 * _GIB),
            "all memtables of an executor together",
        ),
        Property(
            "rocksdb.memtable.bytes",
            at("memtable_bytes"),
            values.whole(64 << 10, 64 * _GIB),
            "one memtable at most, less with many stores; a full one is written to disk",
        ),
        Property(
            "rocksdb.compression",
            at("compression"),
            values.choice("none", "snappy", "lz4", "zstd"),
            "compression of the files",
        ),
        Property(
            "rocksdb.bloom.bits.per.key",
            at("bloom_bits_per_key"),
            values.whole(0, 100),
            "size of the bloom filters; 0 for none",
        ),
        Property(
            "rocksdb.block.bytes",
            at("block_bytes"),
            values.whole(1 << 10, 16 << 20),
            "size of a data block before compression",
        ),
        Property(
            "rocksdb.background.jobs",
            at("background_jobs"),
            values.whole(1, 256),
            "threads for flushes and RocksDB compactions, per store",
        ),
    )


def _tracing() -> tuple[Property, ...]:
    return (
        Property(
            "tracing.endpoint",
            ("tracing", "endpoint"),
            values.collector(),
            "the collector that gets a trace of each batch, by OTLP over HTTP (holdfast[otel])",
            default="none",
        ),
        Property(
            "tracing.sample.share",
            ("tracing", "sample_share"),
            values.number(0, 1),
            "the share of batches that are traced",
        ),
        Property(
            "tracing.links",
            ("tracing", "links"),
            values.whole(0, 1000),
            "the most traces of records (header `traceparent`) that a batch links to; 0: none",
        ),
    )


def _spark() -> tuple[Property, ...]:
    return (
        Property(
            "spark.master",
            ("master",),
            values.text("a Spark master"),
            "where Spark runs",
            default="local-cluster with `executors` processes",
        ),
        Property(
            "spark.secret.file",
            ("spark_secret_file",),
            values.text("a path"),
            "file with the secret that authenticates Spark's driver and executors to each other; "
            "the same path for both",
            default="a secret of each start's own",
        ),
    )


def _placement() -> tuple[Property, ...]:
    return (
        Property(
            "executors",
            ("placement", "executors"),
            values.whole(1, 1_000),
            "executor processes, one core each",
        ),
        Property(
            "executors.keep",
            ("placement", "keep"),
            values.whole(0, 1_000),
            "how many executors keep state, those with the lowest volumes; the state of the others "
            "moves to them, and they can be removed",
            default="all of them",
        ),
        Property(
            "executor.memory.mb",
            ("placement", "executor_memory_mb"),
            values.whole(_SPARK_HEAP_MIN_MB, 1 << 20),
            "Java heap of an executor, MiB",
        ),
        Property(
            "driver.memory.mb",
            ("placement", "driver_memory_mb"),
            values.whole(_SPARK_HEAP_MIN_MB, 1 << 20),
            "Java heap of the driver, MiB",
        ),
        Property(
            "locality.wait.ms",
            ("placement", "locality_wait_ms"),
            values.whole(0, 600_000),
            "how long Spark keeps a task for its executor",
        ),
        Property(
            "standby.replicas",
            ("placement", "standbys"),
            values.whole(0, 10),
            "copies of each state partition on other executors' volumes, which take over at once",
        ),
        Property(
            "placement.wait.ms",
            ("placement", "wait_ms"),
            values.whole(0, 3_600_000),
            "how long a partition with much to restore and no standby waits for the owner of its "
            "store to return",
        ),
    )


_OF_SETTINGS = (
    *_job(),
    *_ingest(),
    *_warn(),
    *_tracing(),
    *_state(),
    *_remote(),
    *_snapshots(),
    *_rocksdb(),
    *_spark(),
    *_placement(),
    *SERVE_PROPERTIES,
    *REGISTRY_PROPERTIES,
)
PROPERTIES: dict[str, Property] = {p.name: p for p in (*_OF_SETTINGS, *STATEMENT_PROPERTIES)}

_DEFAULTS = Settings(application_id="")


def default_text(prop: Property) -> str:
    """The default as a person would type it."""
    if prop.default:
        return prop.default
    value: object = _DEFAULTS
    for field in prop.path:
        value = getattr(value, field)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value) or "none"
    return str(value)

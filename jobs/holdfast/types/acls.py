"""The minimal Kafka ACLs of each part of Holdfast.

`NEEDS` is the list, `bindings` turns it into one job's ACLs, and `holdfast acls` and the page
`jobs/docs/kafka-acls.md` show it.  Kafka's READ, WRITE, ALTER and DELETE imply DESCRIBE, and
ALTER_CONFIGS implies DESCRIBE_CONFIGS: implied operations are not listed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from holdfast.types.ids import SINK_OWNERS_TOPIC, compaction_transactional_id, orders_topic
from holdfast.types.statements.topology import Topology

__all__ = [
    "NEEDS",
    "Binding",
    "Names",
    "Need",
    "Of",
    "Operation",
    "Part",
    "Resource",
    "bindings",
    "needs_of",
]

CLUSTER = "kafka-cluster"  # the cluster's name in every ACL


class Resource(StrEnum):
    """Kafka's resource types."""

    TOPIC = "TOPIC"
    GROUP = "GROUP"
    TRANSACTIONAL_ID = "TRANSACTIONAL_ID"
    CLUSTER = "CLUSTER"


class Operation(StrEnum):
    """Kafka's ACL operations."""

    READ = "READ"
    WRITE = "WRITE"
    CREATE = "CREATE"
    DELETE = "DELETE"
    ALTER = "ALTER"
    DESCRIBE = "DESCRIBE"
    DESCRIBE_CONFIGS = "DESCRIBE_CONFIGS"
    ALTER_CONFIGS = "ALTER_CONFIGS"


class Part(StrEnum):
    """A part of Holdfast with its own principal: commands that need the same ACLs."""

    JOB = "run"
    SERVE = "serve"
    VERIFY = "verify"
    CHAOS = "chaos"
    SURVEY = "compaction survey"
    APPLY = "compaction apply"
    SELFTEST = "selftest"
    ORDERS = "pause"
    LETTERS = "dead-letters"


class Of(StrEnum):
    """The resources of a need; the value is its text in the page."""

    SOURCES = "the source topics"
    INPUTS = "source topics that the job does not write itself"
    INPUT_STREAMS = "of these, the topics of streams"
    INPUT_TABLES = "source topics of tables that the job does not write itself"
    NEW_SOURCES = "source topics whose statement gives PARTITIONS"
    INSERTED = "topics of `INSERT INTO … VALUES`"
    SINKS = "the sink topics"
    OWN = "topics that begin with `<application.id>-`"
    DEAD_LETTERS = "`dead.letter.topic`, if it is set"
    CONTROL = "the topic `<application.id>-control`"
    SINK_OWNERS = f"the topic `{SINK_OWNERS_TOPIC}`"
    GROUPS = "groups that begin with `<application.id>-`"
    ALL_GROUPS = "all groups, `*`"
    TRANSACTIONS = "transactional ids that begin with `<application.id>-`"
    COMPACTION = "the transactional id `<application.id>-compaction`"
    CLUSTER = "the cluster"


@dataclass(frozen=True)
class Need:
    """The operations of some parts on some resources, and their purpose."""

    parts: tuple[Part, ...]
    of: Of
    operations: tuple[Operation, ...]
    why: str


_O = Operation
_JOB, _SERVE, _VERIFY, _CHAOS = (Part.JOB,), (Part.SERVE,), (Part.VERIFY,), (Part.CHAOS,)
_ORDERS, _SURVEY, _APPLY = (Part.ORDERS,), (Part.SURVEY,), (Part.APPLY,)
_LETTERS = (Part.LETTERS,)
_OWN = (Part.JOB, Part.SELFTEST)  # use the topics under the job's own name
NEEDS: tuple[Need, ...] = (
    Need(_JOB, Of.SOURCES, (_O.READ,), "input"),
    Need(_JOB, Of.NEW_SOURCES, (_O.CREATE,), "made when they are missing"),
    Need(_JOB, Of.INSERTED, (_O.WRITE,), "the records of the statement"),
    Need(_JOB, Of.SINKS, (_O.CREATE, _O.WRITE), "results; CREATE if they are missing"),
    Need(_JOB, Of.DEAD_LETTERS, (_O.CREATE, _O.WRITE), "records that cannot be decoded"),
    Need(
        _OWN, Of.OWN, (_O.CREATE, _O.READ, _O.WRITE), "changelogs, progress, orders, dead letters"
    ),
    Need(
        _OWN, Of.OWN, (_O.DESCRIBE_CONFIGS,), "whether a changelog is compacted, how tombstones go"
    ),
    Need(_OWN, Of.OWN, (_O.DELETE,), "records between two steps of a statement; selftest's topics"),
    Need(_OWN, Of.SINK_OWNERS, (_O.CREATE, _O.READ, _O.WRITE), "which query writes which sink"),
    Need(_OWN, Of.GROUPS, (_O.READ,), "progress, shown to lag tools; who is the driver"),
    Need(_OWN, Of.TRANSACTIONS, (_O.WRITE,), "exactly once"),
    Need(_SERVE, Of.SOURCES, (_O.READ, _O.DESCRIBE_CONFIGS), "tables and streams over a topic"),
    Need(_SERVE, Of.SINKS, (_O.READ, _O.DESCRIBE_CONFIGS), "results that have no changelog"),
    Need(_SERVE, Of.OWN, (_O.READ, _O.DESCRIBE_CONFIGS), "changelogs"),
    Need(_VERIFY, Of.SOURCES, (_O.READ,), "input, to compute the results again"),
    Need(_VERIFY, Of.INPUT_TABLES, (_O.DESCRIBE_CONFIGS,), "whether looked up rows are kept"),
    Need(_VERIFY, Of.SINKS, (_O.READ, _O.DESCRIBE_CONFIGS), "results, and whether all are kept"),
    Need(_VERIFY, Of.OWN, (_O.READ,), "commit markers, and what was set aside"),
    Need(_VERIFY, Of.GROUPS, (_O.DESCRIBE,), "whether the job has read all of its input"),
    Need(_CHAOS, Of.OWN, (_O.DESCRIBE_CONFIGS,), "whether a changelog has all that was answered"),
    Need(_CHAOS, Of.INPUTS, (_O.WRITE,), "the load"),
    Need(_CHAOS, Of.INPUT_STREAMS, (_O.ALTER,), "the fault `add-partition`"),
    Need(_CHAOS, Of.CONTROL, (_O.WRITE,), "the fault `rescale`"),
    Need(_ORDERS, Of.CONTROL, (_O.READ, _O.WRITE), "what queries are told, and what they do"),
    Need(_ORDERS, Of.SINK_OWNERS, (_O.READ, _O.WRITE), "`holdfast sinks`; WRITE to release one"),
    Need(_LETTERS, Of.OWN, (_O.CREATE, _O.READ, _O.WRITE), "which records were replayed"),
    Need(_LETTERS, Of.DEAD_LETTERS, (_O.READ,), "the records that were set aside"),
    Need(_LETTERS, Of.SOURCES, (_O.WRITE,), "`--replay`: the records again"),
    Need(_LETTERS, Of.TRANSACTIONS, (_O.WRITE,), "`--replay`: each record once"),
    Need(_SURVEY, Of.OWN, (_O.READ, _O.DESCRIBE_CONFIGS), "changelogs and their settings"),
    Need(_SURVEY, Of.SOURCES, (_O.DESCRIBE,), "whether a changelog is orphaned, a job level"),
    Need(_SURVEY, Of.CLUSTER, (_O.DESCRIBE,), "sizes on disk"),
    Need(_SURVEY, Of.CLUSTER, (_O.DESCRIBE_CONFIGS,), "settings of the brokers"),
    Need(_SURVEY, Of.ALL_GROUPS, (_O.DESCRIBE,), "who else reads a changelog"),
    Need(_APPLY, Of.OWN, (_O.ALTER_CONFIGS,), "settings of the changelogs"),
    Need(_APPLY, Of.OWN, (_O.CREATE, _O.WRITE), "what has to be put back; to roll a segment"),
    Need(_APPLY, Of.COMPACTION, (_O.WRITE,), "to roll a segment that nobody writes to"),
)
# Parts that include all needs of another part.
_MORE_THAN = {Part.CHAOS: Part.VERIFY, Part.APPLY: Part.SURVEY}


@dataclass(frozen=True)
class Names:
    """The names of one job that do not derive from its application id."""

    application_id: str
    sources: frozenset[str] = frozenset()
    inputs: frozenset[str] = frozenset()
    input_streams: frozenset[str] = frozenset()
    input_tables: frozenset[str] = frozenset()
    new_sources: frozenset[str] = frozenset()
    inserted: frozenset[str] = frozenset()
    sinks: frozenset[str] = frozenset()
    dead_letters: frozenset[str] = field(default=frozenset())

    @staticmethod
    def of(topology: Topology, application_id: str, dead_letter_topic: str = "") -> Names:
        """The names in a job's statements; internal topics begin with the application id."""
        read = {s.topic: s for q in topology.queries for s in q.sources}
        written = {q.sink.topic for q in topology.queries}
        inputs = read.keys() - written
        tables = {s.topic for s in topology.sources if s.kind == "TABLE"}
        read |= {i.source.topic: i.source for i in topology.insertions}
        internal = {q.sink.topic for q in topology.queries if q.sink.internal}
        new = {t for t, source in read.items() if source.partitions is not None}
        return Names(
            application_id,
            frozenset(read.keys() - internal),
            frozenset(inputs),
            frozenset(inputs - tables),
            frozenset(inputs & tables),
            frozenset(new - written),
            frozenset(i.source.topic for i in topology.insertions),
            frozenset(written - internal),
            frozenset({dead_letter_topic} - {""}),
        )


@dataclass(frozen=True, order=True)
class Binding:
    """One operation on one resource, or on all resources whose names begin with `name`."""

    resource: Resource
    name: str
    operation: Operation
    prefixed: bool = False


def needs_of(part: Part) -> tuple[Need, ...]:
    """The needs of a part, including those of the part that it extends."""
    wanted = {part, _MORE_THAN.get(part)}
    return tuple(need for need in NEEDS if not wanted.isdisjoint(need.parts))


def bindings(needs: Iterable[Need], names: Names) -> list[Binding]:
    """Kafka's ACLs for one job, sorted and without duplicates."""
    return sorted(
        {
            Binding(resource, name, operation, prefixed)
            for need in needs
            for resource, name, prefixed in _resources(need.of, names)
            for operation in need.operations
        }
    )


def _resources(of: Of, names: Names) -> Iterable[tuple[Resource, str, bool]]:
    own = f"{names.application_id}-"
    topics = {
        Of.SOURCES: names.sources,
        Of.INPUTS: names.inputs,
        Of.INPUT_STREAMS: names.input_streams,
        Of.INPUT_TABLES: names.input_tables,
        Of.NEW_SOURCES: names.new_sources,
        Of.INSERTED: names.inserted,
        Of.SINKS: names.sinks,
        Of.DEAD_LETTERS: names.dead_letters,
        Of.CONTROL: {orders_topic(names.application_id)},
        Of.SINK_OWNERS: {SINK_OWNERS_TOPIC},
    }
    if of in topics:
        return [(Resource.TOPIC, name, False) for name in topics[of]]
    return {
        Of.OWN: [(Resource.TOPIC, own, True)],
        Of.GROUPS: [(Resource.GROUP, own, True)],
        Of.ALL_GROUPS: [(Resource.GROUP, "*", False)],
        Of.TRANSACTIONS: [(Resource.TRANSACTIONAL_ID, own, True)],
        Of.COMPACTION: [
            (Resource.TRANSACTIONAL_ID, compaction_transactional_id(names.application_id), False)
        ],
        Of.CLUSTER: [(Resource.CLUSTER, CLUSTER, False)],
    }[of]

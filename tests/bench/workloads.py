"""The workloads: the inputs, the queries over them, and the size of each run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "GAP_MS",
    "INPUTS",
    "PARTITIONS",
    "TABLES",
    "WINDOW_MS",
    "WORKLOADS",
    "Input",
    "Kind",
    "Query",
    "Size",
    "Workload",
]

PARTITIONS = 4  # of every input and sink topic
WINDOW_MS = GAP_MS = 300_000


class Query(StrEnum):
    """COUNT and SUM(amount) grouped by what; windows are per customer.

    `WINDOW` is 5 minutes, `SESSION` a gap of 5 minutes; `JOIN` pairs orders with their payments
    when they are no more than 10 minutes apart.  `COMPUTED` is by title: COUNT and three SUMs of
    computed columns over the sales that pass a computed WHERE.  `EXPRESSION` is by the first ten
    characters of the title in upper case.  `DISTINCT` is by title: COUNT and how many customers.
    """

    CUSTOMER = "customer"
    TITLE = "title"
    WINDOW = "window"
    SESSION = "session"
    JOIN = "join"
    COMPUTED = "computed"
    EXPRESSION = "expression"
    DISTINCT = "distinct"


# The queries that every peer is written for: Quix Streams and Spark have no exactly-once join or
# sessions to compare with, and computed columns and keys are measured beside Kafka Streams alone.
TABLES = frozenset({Query.CUSTOMER, Query.TITLE, Query.WINDOW})


class Kind(StrEnum):
    """How a workload is measured."""

    THROUGHPUT = "throughput"
    LATENCY = "latency"
    RESTORE = "restore"
    KILL = "kill"
    LOSE = "lose"  # killed, and the volume is lost
    GROWN = "grown"  # of a table that has all its keys; then started again; then restored
    RESCALE = "rescale"  # a table that has all its keys, under a steady load
    LOSE_LOADED = "lose-loaded"  # the same, killed, and the volume is lost


@dataclass(frozen=True)
class Input:
    """The input of a workload: `skew` 0 is uniform over `keys` customers, else Zipf's exponent.

    `each_first`: every customer comes once, in an order of its own, before any comes again.
    `hot`: which part of the records is of one title; the rest is uniform over all `titles`.
    `form`: of the values; those with a registry have their schema under the topic's subject.
    Records of a topic are `every_ms` of event time apart; each topic has as many of them.
    """

    name: str
    keys: int = 1_000_000
    skew: float = 0.0
    each_first: bool = False
    titles: int = 10_000
    hot: float = 0.0
    every_ms: int = 1
    topics: tuple[str, ...] = ("sales",)
    form: str = "JSON"


INPUTS = {
    i.name: i
    for i in (
        Input("uniform"),
        Input("avro", form="AVRO"),
        Input("protobuf", form="PROTOBUF"),
        Input("zipf", skew=1.2),
        Input("many-keys", keys=10_000_000),
        Input("few-keys-each", each_first=True),
        Input("many-keys-each", keys=10_000_000, each_first=True),
        Input("most-keys-each", keys=100_000_000, each_first=True),
        Input("hot", hot=0.9),
        Input("shelves", titles=1_000),
        # A customer comes every 200 s on average: most sessions are several records long.
        Input("visits", keys=100_000, every_ms=2),
        Input("orders", keys=100_000, every_ms=10, topics=("orders", "payments")),
    )
}


@dataclass(frozen=True)
class Workload:
    """One row of the report; latency makes its own input, `input` says which customers.

    `part`: which part of `Size.records` it takes, all topics together.  `goal`: how many times
    Kafka Streams' steady rate is wanted, where something is.
    """

    name: str
    title: str
    query: Query
    input: str
    kind: Kind = Kind.THROUGHPUT
    part: int = 1
    goal: float | None = None


WORKLOADS = {
    w.name: w
    for w in (
        Workload("a", "1 M uniform keys", Query.CUSTOMER, "uniform"),
        Workload("a-avro", "1 M uniform keys, in Avro", Query.CUSTOMER, "avro", goal=3.0),
        Workload(
            "a-protobuf", "1 M uniform keys, in Protobuf", Query.CUSTOMER, "protobuf", goal=3.0
        ),
        Workload("b", "Zipf(1.2) keys", Query.CUSTOMER, "zipf"),
        Workload("c", "grouped by title, not the topic's key", Query.TITLE, "uniform"),
        Workload("d", "tumbling 5-minute windows", Query.WINDOW, "uniform"),
        Workload("e", "latency at 10,000 records/s", Query.CUSTOMER, "uniform", Kind.LATENCY),
        Workload("f", "full restore of (a)", Query.CUSTOMER, "uniform", Kind.RESTORE),
        Workload("g", "SIGKILL in the middle of (a)", Query.CUSTOMER, "uniform", Kind.KILL),
        Workload("h", "orders join payments", Query.JOIN, "orders", goal=1.5),
        Workload("i", "sessions of customers", Query.SESSION, "visits", part=2, goal=2.0),
        Workload("j", "WHERE and three computed columns, by title", Query.COMPUTED, "uniform"),
        Workload("k", "grouped by an expression", Query.EXPRESSION, "uniform"),
        Workload("hot", "grouped by title, 90 % of the records on one", Query.TITLE, "hot"),
        Workload("distinct", "distinct customers of 1,000 titles", Query.DISTINCT, "shelves"),
        Workload("a1", "1 M keys, all there", Query.CUSTOMER, "few-keys-each", Kind.GROWN),
        Workload("a100", "100 M keys, all there", Query.CUSTOMER, "most-keys-each", Kind.GROWN),
        Workload("a10", "10 M uniform keys", Query.CUSTOMER, "many-keys"),
        Workload("g01", "SIGKILL, 100 k keys", Query.CUSTOMER, "visits", Kind.KILL),
        Workload("l1", "SIGKILL and volume lost, 1 M keys", Query.CUSTOMER, "uniform", Kind.LOSE),
        Workload(
            "l10", "SIGKILL and volume lost, 10 M keys", Query.CUSTOMER, "many-keys", Kind.LOSE
        ),
        Workload("g10", "SIGKILL, 10 M keys", Query.CUSTOMER, "many-keys", Kind.KILL),
        Workload(
            "s1",
            "SIGKILL and volume lost under load, 1 M keys",
            Query.CUSTOMER,
            "few-keys-each",
            Kind.LOSE_LOADED,
        ),
        Workload(
            "s10",
            "SIGKILL and volume lost under load, 10 M keys",
            Query.CUSTOMER,
            "many-keys-each",
            Kind.LOSE_LOADED,
        ),
        Workload(
            "r1", "rescaled under load, 1 M keys", Query.CUSTOMER, "few-keys-each", Kind.RESCALE
        ),
        Workload(
            "r10", "rescaled under load, 10 M keys", Query.CUSTOMER, "many-keys-each", Kind.RESCALE
        ),
    )
}


@dataclass(frozen=True)
class Size:
    """How much is done, by default.

    Attributes:
        records: of each input, (h): of both topics together; (i) takes half as many.
        rounds: of the throughput workloads; the others are measured once.
        latency_s, warm_s: how long (e) is measured, and how long before that it only runs.
        batch: the largest micro-batch of Spark alone, in records; at most an eighth of them.
        once: slow peers: in the first round only, and with 1/`once_share` of the records.
        under: the command that starts the peers' processes, to limit their memory for example.
        minutes: no run begins after that, no repetition that would not end in it.
    """

    records: int
    rounds: int
    latency_s: float
    warm_s: float
    batch: int
    workloads: tuple[str, ...]
    peers: tuple[str, ...]
    once: tuple[str, ...]
    once_share: int
    minutes: float
    under: tuple[str, ...] = ()

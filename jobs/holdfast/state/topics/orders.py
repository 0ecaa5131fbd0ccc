"""Orders to the queries of a job, and the states that its driver publishes (ADR 16).

One compacted topic per job (`types.ids.orders_topic`), one topic partition, JSON values:

    key = order:<query id>            the desired state of the query; from commands and servers
    key = state:<query id>            the actual state of the query; from the driver
    key = savepoint-order:<name>      a savepoint that the job shall make; from commands
    key = savepoint-state:<name>      what became of it; from the driver
    key = beginning                   the savepoint that the job begins with; from the driver
    key = rescale-order:<query id>    the wanted number of state partitions; from commands
    key = rescale-state:<query id>    what became of it; from the driver
    key = copying:<query id>          the generation that its state is being copied into; likewise
    key = driver                      who runs the job; from the driver, removed when it ends
    key = layout:<query id>           the generation of the query's state that counts; written by
                                      the transaction that decides it (ADR 51)

A query without an order runs.  A driver reads the topic before it starts a query and follows it
from then on, so an order outlives every process, and reaches a driver wherever it runs.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from holdfast.errors import DataLoss
from holdfast.state.layout import Layout
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.cluster.view import ClusterView
from holdfast.transport.idempotent_producer import Producer
from holdfast.transport.reader import PartitionReader
from holdfast.types.ids import orders_topic
from holdfast.types.statements.topology import Query
from holdfast.types.status import QueryState

__all__ = [
    "Answer",
    "Beginning",
    "Driver",
    "Order",
    "OrderBook",
    "RescaleOrder",
    "SavepointOrder",
    "Told",
    "jobs_with_orders",
    "layout_record",
    "read_layouts",
    "statement_digest",
]

_CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),  # only closed segments are compacted, and readers read all
}
_TIMEOUT_S = 30.0
_ORDER, _STATE = "order:", "state:"
_SAVEPOINT_ORDER, _SAVEPOINT_STATE = "savepoint-order:", "savepoint-state:"
_BEGINNING, _DRIVER = "beginning", "driver"
_RESCALE_ORDER, _RESCALE_STATE, _LAYOUT = "rescale-order:", "rescale-state:", "layout:"
_COPYING = "copying:"
_T = TypeVar("_T")


@dataclass(frozen=True)
class Order:
    """An order: the desired state of one query.

    Attributes:
        statement: digest of the query's statement; TERMINATED does not apply to another one.
        token: unique to this order; the driver publishes it once the order is carried out.
        written_ms: wall-clock time.
    """

    wanted: QueryState
    statement: str
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    written_ms: int = field(default_factory=lambda: int(time.time() * 1000))

    def state_of(self, statement: str) -> QueryState:
        """The desired state for a statement's digest: a new statement runs again."""
        if self.wanted is QueryState.TERMINATED and statement != self.statement:
            return QueryState.RUNNING
        return self.wanted


@dataclass(frozen=True)
class Told:
    """The state of one query, published by its driver.

    Attributes:
        sink: the stream or table that the query writes.
        statement: digest of the query's statement.
        token: the token of the last order carried out; empty before the first.
        batch_id: the query's last committed batch; -1 if this driver has seen none.
    """

    state: QueryState
    sink: str
    statement: str
    token: str = ""
    batch_id: int = -1


@dataclass(frozen=True)
class SavepointOrder:
    """An order to make a savepoint.

    Attributes:
        until_ms: nobody waits for it any more, by the clock of the one who has ordered it; a driver
            that starts later does not obey it.
        token: unique to this order; the driver's answer has it.
        wait_ms: how long somebody waits for it; 0: an older version has ordered it.
    """

    until_ms: int
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    wait_ms: int = 0

    @staticmethod
    def within(wait_s: float) -> SavepointOrder:
        """An order for which somebody waits so long from now on."""
        wait_ms = int(wait_s * 1000)
        return SavepointOrder(int(time.time() * 1000) + wait_ms, wait_ms=wait_ms)


@dataclass(frozen=True)
class Answer:
    """The driver's answer to an order that takes a while: to make a savepoint, to rescale.

    Attributes:
        token: of the order.
        doing: what it is doing now, in words; empty: it is done, or has failed.
        fact, cause, action: why it failed; empty: it did not.
    """

    token: str
    doing: str = ""
    fact: str = ""
    cause: str = ""
    action: str = ""


@dataclass(frozen=True)
class Beginning:
    """The savepoint that a job begins with.

    Attributes:
        savepoint: see `Savepoint.reference`.
        done: all of it is in the job's topics; it is not brought in any more, whatever is lost.
    """

    savepoint: str
    done: bool = False

    @property
    def named(self) -> str:
        """The savepoint as `savepoint.from` names it."""
        return self.savepoint.rpartition("@")[0]


@dataclass(frozen=True)
class Driver:
    """The driver of a job (ADR 62).

    Attributes:
        name: for people.
        key: with the name, the same in every restart of this driver; empty: it has no such name.
        machine: where `pid` and `born` (start of the process, seconds after boot) mean something.
        since_ms: when it started, wall-clock time.
    """

    name: str
    key: str
    machine: str
    pid: int
    born: float
    since_ms: int


@dataclass(frozen=True)
class RescaleOrder:
    """An order to rescale a query, or to confirm that it was.

    Attributes:
        state_partitions: the wanted number; 0: delete the changelogs of former generations.
        token: unique to this order; the driver's answer has it.
    """

    state_partitions: int = 0
    token: str = field(default_factory=lambda: uuid.uuid4().hex)


_ORDERS, _TOLD = TypeAdapter(Order), TypeAdapter(Told)
_SAVEPOINT_ORDERS, _ANSWERS = TypeAdapter(SavepointOrder), TypeAdapter(Answer)
_BEGINNINGS, _DRIVERS = TypeAdapter(Beginning), TypeAdapter(Driver)
_RESCALE_ORDERS = TypeAdapter(RescaleOrder)
_LAYOUTS, _GENERATIONS = TypeAdapter(Layout), TypeAdapter(int)


def statement_digest(query: Query) -> str:
    """16 hex digits over a statement's text, independent of its line breaks."""
    text = " ".join(query.statement.split())
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def jobs_with_orders(client: Mapping[str, str], timeout_s: float = _TIMEOUT_S) -> list[str]:
    """Sorted application ids of all jobs of the cluster with an orders topic.

    Raises:
        KafkaUnavailable: no broker answered.
    """
    _, topics = ClusterView(client, timeout_s).cluster()
    suffix = orders_topic("")
    return sorted(name.removesuffix(suffix) for name in topics if name.endswith(suffix))


def layout_record(application_id: str, query_id: str, layout: Layout) -> tuple[str, bytes, bytes]:
    """The (topic, key, value) of the record that says which generation counts.

    Whoever only reads goes by it, so nobody may write it but the transaction that decides it.
    """
    key = f"{_LAYOUT}{query_id}".encode()
    return orders_topic(application_id), key, _LAYOUTS.dump_json(layout)


def read_layouts(client: Mapping[str, str], application_id: str) -> Mapping[str, Layout]:
    """The recorded layouts of a job's queries, by query id; none: generation 0 counts.

    Raises:
        KafkaUnavailable: no broker answered.
    """
    book = OrderBook(Admin(client), client, application_id)
    book.refresh()
    return book.layouts


class OrderBook:
    """Owns the orders and states of one job that were read so far.  Not thread-safe.

    Args:
        timeout_s: how long a read or write of a record may take.
        replicas: replicas of the topic if it is created; -1 for the broker's default.
    """

    def __init__(
        self,
        admin: Admin,
        client: Mapping[str, str],
        application_id: str,
        *,
        timeout_s: float = _TIMEOUT_S,
        replicas: int = -1,
    ) -> None:
        """Sends nothing before the first call."""
        self.topic = orders_topic(application_id)
        self.orders: dict[str, Order] = {}  # by query id
        self.told: dict[str, Told] = {}  # by query id
        self.savepoint_orders: dict[str, SavepointOrder] = {}  # by name
        self.savepoints_told: dict[str, Answer] = {}  # by name
        self.beginning: Beginning | None = None
        self.driver: Driver | None = None
        self.rescale_orders: dict[str, RescaleOrder] = {}  # by query id
        self.rescales_told: dict[str, Answer] = {}  # by query id
        self.layouts: dict[str, Layout] = {}  # by query id
        self.copying: dict[str, int] = {}  # the generation that is copied into, by query id
        self._client = dict(client)
        self._timeout_s = timeout_s
        self._replicas = replicas
        self._admin = admin
        self._position = 0

    def refresh(self) -> bool:
        """Reads new records; False if the job has no such topic (yet).

        Raises:
            KafkaUnavailable: no broker answered in time.
        """
        if self._admin.describe(self.topic) is None:
            self._forget()
            return False
        end = self._admin.end_offsets(self.topic)[0]
        if end < self._position:  # the topic was recreated
            self._forget()
        if end > self._position:
            self._read(end)
        return True

    def write_orders(self, orders: Mapping[str, Order]) -> None:
        """Writes orders by query id; on return, all in-sync replicas have them.

        Raises:
            KafkaUnavailable, Refused: some may have been written.
        """
        self._send({f"{_ORDER}{i}": _ORDERS.dump_json(o) for i, o in orders.items()})

    def tell(self, told: Mapping[str, Told], gone: Iterable[str] = ()) -> None:
        """Writes the states of queries by query id; `gone` are ids of former queries.

        Raises:
            KafkaUnavailable, Refused: some may have been written.
        """
        values: dict[str, bytes | None] = {
            f"{_STATE}{i}": _TOLD.dump_json(t) for i, t in told.items()
        }
        self._send(values | {f"{_STATE}{i}": None for i in gone})

    def order_savepoint(self, name: str, order: SavepointOrder) -> None:
        """Orders a savepoint of this name.

        Raises:
            KafkaUnavailable, Refused: it may have been written.
        """
        self._send({f"{_SAVEPOINT_ORDER}{name}": _SAVEPOINT_ORDERS.dump_json(order)})

    def tell_savepoint(self, name: str, told: Answer) -> None:
        """Writes what became of an ordered savepoint.

        Raises:
            KafkaUnavailable, Refused: it may have been written.
        """
        self._send({f"{_SAVEPOINT_STATE}{name}": _ANSWERS.dump_json(told)})
        self.savepoints_told[name] = told

    def begin_with(self, beginning: Beginning) -> None:
        """Records what the job begins with; on return, all in-sync replicas have it.

        Raises:
            KafkaUnavailable, Refused: it may have been written.
        """
        self._send({_BEGINNING: _BEGINNINGS.dump_json(beginning)})
        self.beginning = beginning

    def tell_driver(self, driver: Driver | None, timeout_s: float | None = None) -> None:
        """Records who runs the job; None: nobody does any more.

        Raises:
            KafkaUnavailable, Refused: it may have been written.
        """
        value = None if driver is None else _DRIVERS.dump_json(driver)
        self._send({_DRIVER: value}, timeout_s)
        self.driver = driver

    def order_rescale(self, query_id: str, order: RescaleOrder) -> None:
        """Orders a rescale of this query.

        Raises:
            KafkaUnavailable, Refused: it may have been written.
        """
        self._send({f"{_RESCALE_ORDER}{query_id}": _RESCALE_ORDERS.dump_json(order)})

    def tell_rescale(self, query_id: str, told: Answer) -> None:
        """Writes what became of an ordered rescale.

        Raises:
            KafkaUnavailable, Refused: it may have been written.
        """
        self._send({f"{_RESCALE_STATE}{query_id}": _ANSWERS.dump_json(told)})
        self.rescales_told[query_id] = told

    def tell_copying(self, query_id: str, generation: int | None) -> None:
        """Writes into which generation a query's state is being copied; None: into none.

        Raises:
            KafkaUnavailable, Refused: it may have been written.
        """
        value = None if generation is None else _GENERATIONS.dump_json(generation)
        self._send({f"{_COPYING}{query_id}": value})

    def _forget(self) -> None:
        self.orders.clear()
        self.told.clear()
        self.savepoint_orders.clear()
        self.savepoints_told.clear()
        self.beginning = None
        self.driver = None
        self.rescale_orders.clear()
        self.rescales_told.clear()
        self.layouts.clear()
        self.copying.clear()
        self._position = 0

    def _read(self, end: int) -> None:
        # Closed at once: an open consumer keeps asking the broker ten times a second.
        reader = PartitionReader(self._client, self.topic, 0, timeout_s=self._timeout_s)
        try:
            start, _ = reader.bounds()
            for chunk in reader.read(max(start, self._position), end):
                for key, value in zip(chunk.keys, chunk.values, strict=True):
                    self._take((key or b"").decode(errors="replace"), value)
        except DataLoss:  # the topic was recreated meanwhile: the next call reads all of it
            self._forget()
            return
        finally:
            reader.close()
        self._position = end

    def _take(self, key: str, value: bytes | None) -> None:
        """Takes over a record; ignores one that it cannot read, as of a later version."""
        name = key.partition(":")[2]
        if key.startswith(_ORDER):
            _put(self.orders, name, _parsed(_ORDERS, value))
        elif key.startswith(_STATE):
            _put(self.told, name, _parsed(_TOLD, value))
        elif key.startswith(_SAVEPOINT_ORDER):
            _put(self.savepoint_orders, name, _parsed(_SAVEPOINT_ORDERS, value))
        elif key.startswith(_SAVEPOINT_STATE):
            _put(self.savepoints_told, name, _parsed(_ANSWERS, value))
        elif key == _DRIVER:
            self.driver = _parsed(_DRIVERS, value)
        elif key == _BEGINNING:
            self.beginning = _parsed(_BEGINNINGS, value)
        elif key.startswith(_RESCALE_ORDER):
            _put(self.rescale_orders, name, _parsed(_RESCALE_ORDERS, value))
        elif key.startswith(_RESCALE_STATE):
            _put(self.rescales_told, name, _parsed(_ANSWERS, value))
        elif key.startswith(_LAYOUT):
            _put(self.layouts, name, _parsed(_LAYOUTS, value))
        elif key.startswith(_COPYING):
            _put(self.copying, name, _parsed(_GENERATIONS, value))

    def _send(self, values: Mapping[str, bytes | None], timeout_s: float | None = None) -> None:
        self._admin.ensure_topic(self.topic, 1, self._replicas, _CONFIG)
        # Duplicates do no harm, because the last record of a key counts.
        wait_ms = int((timeout_s or self._timeout_s) * 1000)
        producer = Producer(self._client, wait_ms, idempotent=False)
        try:
            for key, value in values.items():
                producer.send(self.topic, key.encode(), value, partition=0)
            producer.flush()
        finally:
            producer.close()


def _parsed(adapter: TypeAdapter[_T], value: bytes | None) -> _T | None:
    try:
        return None if value is None else adapter.validate_json(value)
    except ValidationError:
        return None


def _put(into: dict[str, _T], query_id: str, value: _T | None) -> None:
    if value is None:
        into.pop(query_id, None)
    else:
        into[query_id] = value

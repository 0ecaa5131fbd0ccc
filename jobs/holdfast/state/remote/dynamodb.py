"""Stores in DynamoDB, and the translation of its errors.

All stores are in one table, whose partition key `s` (text) and sort key `k` (bytes) are

    s                                    k             v
    <application>/<state>/<partition>    0x00          the stamp
    <application>/<state>/<partition>    0x01 + key    the row
    <application>                        <state>/<partition>, so that stores can be listed

Every change is a transaction with a condition on the stamp (`TransactWriteItems`), so none of a
former owner's is done.  One has 100 items at most, so a batch takes several.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from secrets import token_hex
from typing import Any, TypeVar
from urllib.parse import urlsplit

from boto3.session import Session
from botocore import exceptions
from botocore.config import Config

from holdfast.config.settings import RemoteSettings
from holdfast.errors import HoldfastError, Refused, StoreUnavailable
from holdfast.state.remote.table import Pairs, Stamp

__all__ = ["DynamoLink", "DynamoTable", "delete_store", "stores_of", "table"]

_STAMP, _ROW, _ROW_END = b"\x00", b"\x01", b"\x02"
# DynamoDB's limits, its developer guide's page "Service, account, and table quotas".
_MOST_ITEMS = 100  # of a transaction, and of a read of several
_MOST_BYTES = 4 << 20  # of a transaction
_MOST_KEY = 1_022  # of 1,024: a scan goes on at key + one byte, and a byte is in front
_MOST_ROW = (400 << 10) - 1_024  # names and the partition key count, too
_ITEM_BYTES = 400  # beside key and value, at most
_AT_ONCE = 8  # requests of a read
_TRIES = (
    4  # of a request, with longer and longer pauses; the client's tokens make a second one harmless
)

_REFUSES = (
    "AccessDeniedException", "ExpiredTokenException", "IncompleteSignatureException",
    "InvalidSignatureException", "MissingAuthenticationTokenException",
    "UnrecognizedClientException",
)  # fmt: skip
_THROTTLED = (
    "LimitExceededException", "ProvisionedThroughputExceeded",
    "ProvisionedThroughputExceededException", "RequestLimitExceeded", "ThrottlingError",
    "ThrottlingException", "TransactionConflict", "TransactionInProgressException",
)  # fmt: skip
_NO_TABLE = "ResourceNotFoundException"

_Item = dict[str, dict[str, Any]]
Given = TypeVar("Given")
Answer = TypeVar("Answer")


class DynamoLink:
    """The way to one table; links to the same one share a client.

    Where it is and who asks is told by AWS' own environment variables, files and roles.
    """

    def __init__(self, settings: RemoteSettings) -> None:
        parts = urlsplit(settings.uri)
        self.table = parts.path.strip("/")
        self.address = f"{self.table} in {parts.netloc}"
        self._client, self._pool = _client(parts.netloc, settings.timeout_ms)

    def ask(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """The answer to one request about the table.

        Raises:
            HoldfastError: DynamoDB does not answer, or with an error.
            _Cancelled, _Exists: see there.
        """
        try:
            answer: dict[str, Any] = getattr(self._client, operation)(**parameters)
        except (exceptions.BotoCoreError, exceptions.ClientError) as error:
            codes = _codes(error)
            if not codes.isdisjoint(_ANSWERS):
                raise _ANSWERS[(codes & _ANSWERS.keys()).pop()] from error
            raise _translated(error, codes, self.address) from error
        return answer

    def each(self, work: Callable[[Given], Answer], given: Iterable[Given]) -> list[Answer]:
        """Does reads side by side; answers are in order."""
        return list(self._pool.map(work, given))

    def make_table(self) -> None:
        """Creates the table, unless somebody has; it is paid by the request."""
        kinds = {"s": ("HASH", "S"), "k": ("RANGE", "B")}
        with suppress(_Exists):
            self.ask(
                "create_table",
                TableName=self.table,
                KeySchema=[{"AttributeName": n, "KeyType": k} for n, (k, _) in kinds.items()],
                AttributeDefinitions=[
                    {"AttributeName": n, "AttributeType": t} for n, (_, t) in kinds.items()
                ],
                BillingMode="PAY_PER_REQUEST",
            )
        try:
            waiter = self._client.get_waiter("table_exists")
            waiter.wait(TableName=self.table, WaiterConfig={"Delay": 1, "MaxAttempts": 60})
        except (exceptions.BotoCoreError, exceptions.ClientError) as error:
            raise _translated(error, _codes(error), self.address) from error

    def get(self, s: str, k: bytes) -> bytes | None:
        """The value of an item; None for a missing one."""
        found = self.ask("get_item", TableName=self.table, Key=_key(s, k), ConsistentRead=True)
        return found["Item"]["v"]["B"] if "Item" in found else None

    def query(self, s: str, start: bytes, last: bytes, limit: int | None = None) -> Iterator[_Item]:
        """Items with `start <= k <= last`, in order; at most `limit`."""
        for answer in self._pages(s, start, last, limit=limit):
            yield from answer["Items"]

    def count(self, s: str, start: bytes, last: bytes) -> int:
        """The number of items with `start <= k <= last`."""
        return sum(a["Count"] for a in self._pages(s, start, last, Select="COUNT"))

    def _pages(
        self, s: str, start: bytes, last: bytes, *, limit: int | None = None, **more: Any
    ) -> Iterator[dict[str, Any]]:
        asked: dict[str, Any] = {
            "TableName": self.table,
            "ConsistentRead": True,
            "KeyConditionExpression": "s = :s AND k BETWEEN :a AND :z",
            "ExpressionAttributeValues": {":s": {"S": s}, ":a": {"B": start}, ":z": {"B": last}},
            **more,
        }
        while start <= last and (limit is None or limit > 0):
            answer = self.ask("query", **asked, **({} if limit is None else {"Limit": limit}))
            yield answer
            limit = None if limit is None else limit - answer["Count"]
            if "LastEvaluatedKey" not in answer:
                return
            asked["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def transact(self, *actions: dict[str, Any]) -> bool:
        """Does all of them, or none if a condition does not hold; whether it did."""
        named = [
            {kind: {"TableName": self.table, **a} for kind, a in each.items()} for each in actions
        ]
        try:
            self.ask("transact_write_items", TransactItems=named)
        except _Cancelled:
            return False
        return True

    def close(self) -> None:
        """Ends nothing: other stores use the client, too."""


class DynamoTable:
    """`RemoteTable` in DynamoDB.

    Args:
        name: `<application>/<state>/<partition>`.
        part_rows: rows of a transaction; a test has smaller ones.
    """

    part_bytes = _MOST_BYTES - (64 << 10)  # the stamp is beside them
    row_bytes = _ITEM_BYTES

    def __init__(self, link: DynamoLink, name: str, part_rows: int = _MOST_ITEMS - 2) -> None:
        self.part_rows = part_rows
        self._link = link
        self._name = name

    def stamp(self) -> Stamp | None:
        try:
            return self._stamped()
        except _NoTable:
            self._link.make_table()
            return self._stamped()

    def _stamped(self) -> Stamp | None:
        return Stamp.from_bytes(self._link.get(self._name, _STAMP))

    def read(self, keys: Sequence[bytes]) -> tuple[Stamp | None, list[bytes | None]]:
        wanted = list(dict.fromkeys(key for key in keys if len(key) <= _MOST_KEY))
        parts = [wanted[n : n + _MOST_ITEMS] for n in range(0, len(wanted), _MOST_ITEMS)]
        found: dict[bytes, bytes] = {}
        for rows in self._link.each(self._values, parts):
            found.update(rows)
        # After them: as long as the stamp is the caller's, nobody else has written.
        return self._stamped(), [found.get(key) for key in keys]

    def _values(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        table, found = self._link.table, dict[bytes, bytes]()
        left = {"Keys": [_key(self._name, _ROW + key) for key in keys], "ConsistentRead": True}
        for _ in range(_MOST_ITEMS):  # each answer has one at least
            answer = self._link.ask("batch_get_item", RequestItems={table: left})
            found.update(_pair(item) for item in answer["Responses"].get(table, ()))
            if table not in answer["UnprocessedKeys"]:
                return found
            left = answer["UnprocessedKeys"][table]
        raise _throttled(self._link.address, "UnprocessedKeys")

    def scan(
        self, ranges: Sequence[tuple[bytes, bytes | None]], limit: int | None = None
    ) -> tuple[Stamp | None, list[Pairs]]:
        def scanned(each: tuple[bytes, bytes | None]) -> Pairs:
            start, end = each
            last = _ROW_END if end is None else _bound(end)
            items = self._link.query(self._name, _bound(start), last, limit)
            pairs = map(_pair, items)
            return [(key, value) for key, value in pairs if end is None or key < end]

        found = self._link.each(scanned, ranges)
        return self._stamped(), found

    def count(self, start: bytes, end: bytes) -> tuple[Stamp | None, int]:
        rows = self._link.count(self._name, _bound(start), _bound(end))
        if rows and self._link.get(self._name, _bound(end)) is not None:
            rows -= 1  # the end is not among them
        return self._stamped(), rows

    def write(self, rows: Mapping[bytes, bytes | None], was: Stamp, to: Stamp) -> bool:
        for key, value in rows.items():
            _check_fits(self._name, key, value)
        return self._link.transact(
            self._moved(was, to), *(self._change(*row) for row in rows.items())
        )

    def _change(self, key: bytes, value: bytes | None) -> dict[str, Any]:
        at = _key(self._name, _ROW + key)
        return (
            {"Delete": {"Key": at}}
            if value is None
            else {"Put": {"Item": {**at, "v": {"B": value}}}}
        )

    def _moved(self, was: Stamp | None, to: Stamp) -> dict[str, Any]:
        asked: dict[str, Any] = {
            "Key": _key(self._name, _STAMP),
            "UpdateExpression": "SET v = :to",
            "ExpressionAttributeValues": {":to": {"B": to.to_bytes()}},
            "ConditionExpression": "attribute_not_exists(k)",
        }
        if was is not None:
            asked["ConditionExpression"] = "v = :was"
            asked["ExpressionAttributeValues"][":was"] = {"B": was.to_bytes()}
        return {"Update": asked}

    def clear(self, was: Stamp | None, to: Stamp) -> bool:
        torn = replace(to, whole=False)
        listed = {"Put": {"Item": {**_listing(self._name), "v": {"B": b""}}}}
        return (
            self._link.transact(self._moved(was, torn), listed)
            and self._remove_rows(torn)
            and self.write({}, torn, to)
        )

    def _remove_rows(self, torn: Stamp) -> bool:
        """Removes all rows under a stamp that stays; false if it is, or has become, another one."""
        while keys := [key for key, _ in self.scan([(b"", None)], self.part_rows)[1][0]]:
            if not self.write(dict.fromkeys(keys), torn, torn):
                return False
        return True

    def remove(self) -> None:
        """Takes the store over and removes all of it, unless it gets another owner meanwhile."""
        torn = Stamp(token_hex(8), whole=False)
        if not self._link.transact(self._moved(self.stamp(), torn)) or not self._remove_rows(torn):
            return
        gone = {
            "Key": _key(self._name, _STAMP),
            "ConditionExpression": "v = :was",
            "ExpressionAttributeValues": {":was": {"B": torn.to_bytes()}},
        }
        self._link.transact({"Delete": gone}, {"Delete": {"Key": _listing(self._name)}})

    def bytes(self) -> int:
        """Returns 0: DynamoDB tells the size of the whole table only, every six hours."""
        return 0

    def close(self) -> None:
        self._link.close()


def table(settings: RemoteSettings, name: str) -> DynamoTable:
    """The rows of one store."""
    return DynamoTable(DynamoLink(settings), name)


def stores_of(settings: RemoteSettings, application_id: str) -> list[tuple[str, str, int]]:
    """(application id, state name, state partition) of every store of an application, sorted."""
    try:
        items = list(DynamoLink(settings).query(application_id, b"\x00", b"\xff"))
    except _NoTable:
        return []
    names = (item["k"]["B"].decode().rsplit("/", 1) for item in items)
    return sorted((application_id, state, int(partition)) for state, partition in names)


def delete_store(settings: RemoteSettings, name: str) -> None:
    """Takes a store over and removes it, unless it gets another owner meanwhile."""
    table(settings, name).remove()


@functools.cache
def _client(region: str, timeout_ms: int) -> tuple[Any, ThreadPoolExecutor]:
    """A client takes half a second and 30 MB: one for all stores of a process."""
    seconds = timeout_ms / 1000
    config = Config(
        connect_timeout=seconds,
        read_timeout=seconds,
        retries={"mode": "standard", "total_max_attempts": _TRIES},
        max_pool_connections=2 * _AT_ONCE,
        tcp_keepalive=True,
        user_agent_extra="holdfast",
    )
    client = Session().client("dynamodb", region_name=region, config=config)
    return client, ThreadPoolExecutor(_AT_ONCE, "dynamodb")


class _NoTable(StoreUnavailable):
    """The table does not exist."""


class _Exists(Exception):
    """The table exists."""


class _Cancelled(Exception):
    """The condition of a transaction did not hold."""


_ANSWERS = {"ConditionalCheckFailed": _Cancelled, "ResourceInUseException": _Exists}


def _codes(error: Exception) -> set[str]:
    """The codes in DynamoDB's answer; empty without an answer."""
    if not isinstance(error, exceptions.ClientError):
        return set()
    if error.response["ResponseMetadata"].get("HTTPStatusCode", 0) >= 500:
        return set()
    reasons = [error.response.get("Error", {}), *error.response.get("CancellationReasons", ())]
    return {each.get("Code", "") for each in reasons}


def _translated(error: Exception, codes: set[str], address: str) -> HoldfastError:
    text = str(error)
    if _NO_TABLE in codes:
        return _NoTable(
            f"There is no table {address} in DynamoDB.",
            cause="it was deleted.",
            action="none: it is created at the next opening, and the stores are restored.",
        )
    if not codes.isdisjoint(_THROTTLED):
        return _throttled(address, text)
    nobody = exceptions.NoCredentialsError | exceptions.PartialCredentialsError
    if isinstance(error, nobody) or not codes.isdisjoint(_REFUSES):
        return StoreUnavailable(  # a role may just be changing
            f"The remote store {address} refuses this user ({text}).",
            action="look at the executors' role or AWS_* variables and at the rights that "
            "remote-state.md names; the job waits, and no commit is lost.",
        )
    if not codes:
        return StoreUnavailable(
            f"The remote store {address} does not answer ({text}).",
            cause="DynamoDB, or the way to it, is down or overloaded.",
            action="see that it comes back; the job waits, and no commit is lost.",
        )
    return Refused(
        f"DynamoDB answers with an error about {address}: {text}.",
        action="look at the table: its partition key is `s` (text), its sort key `k` (binary).",
    )


def _throttled(address: str, text: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"The remote store {address} is throttled ({text}).",
        cause="more is asked of the table, or of one state partition, than its capacity allows.",
        action="none: the job waits, and no commit is lost; for more speed, give the table more "
        "capacity and the job more state partitions.",
    )


def _check_fits(name: str, key: bytes, value: bytes | None) -> None:
    size = len(key) + len(value or b"")
    if len(key) <= _MOST_KEY and size <= _MOST_ROW:
        return
    raise Refused(
        f"A row of the store {name} does not fit in DynamoDB: its key, which begins with "
        f"{key[:40]!r}, has {len(key):,} bytes of {_MOST_KEY:,}, key and value have {size:,} of "
        f"{_MOST_ROW:,}.",
        action="use Redis, or state.backend=rocksdb: the row is in the changelog, and nothing is "
        "lost.",
    )


def _key(s: str, k: bytes) -> _Item:
    return {"s": {"S": s}, "k": {"B": k}}


def _bound(key: bytes) -> bytes:
    """A sort key as long as DynamoDB takes one: no row's is as long, so none is in between."""
    return (_ROW + key)[: _MOST_KEY + 2]


def _listing(name: str) -> _Item:
    application, _, rest = name.partition("/")
    return _key(application, rest.encode())


def _pair(item: _Item) -> tuple[bytes, bytes]:
    return item["k"]["B"][1:], item["v"]["B"]

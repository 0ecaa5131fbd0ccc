"""The contract of every remote database: one owner, no torn batch, no unnoticed loss."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from holdfast.config.settings import RemoteSettings, StateSettings
from holdfast.errors import (
    Fenced,
    InvalidConfig,
    Refused,
    StoreCorrupted,
    StoreUnavailable,
    VolumeFull,
)
from holdfast.state import open_table_store
from holdfast.state.digest import remote_digests, store_digests
from holdfast.state.remote.dynamodb import DynamoLink, DynamoTable
from holdfast.state.remote.opening import RemoteStores, open_remote, read_remote
from holdfast.state.remote.redis import RedisLink, RedisTable, delete_store, stores_of
from holdfast.state.remote.store import RemoteSnapshot, RemoteStore, WarmedStore
from holdfast.state.remote.table import RemoteTable
from holdfast.state.table_store import StorePosition
from holdfast.state.volume import claim
from tests.simulation.fakes.database import Database
from tests.support.servers.certificates import Authority
from tests.support.servers.dynamodb_server import DynamoServer, in_environment
from tests.support.servers.redis_server import RedisServer

NAME = "app/ctas_t/0"
BEFORE = {b"%02d" % n: b"old" for n in range(10)}
PUTS = [(b"%02d" % n, b"new") for n in range(5, 15)]
GONE = [b"%02d" % n for n in range(3)]
AFTER = {key: value for key, value in {**BEFORE, **dict(PUTS)}.items() if key not in GONE}


class _Crash(BaseException):
    """The process is gone."""


class _Crashing:
    """A table whose process dies right after a request of `limit` to change something."""

    def __init__(self, table: RemoteTable, limit: int) -> None:
        self._table = table
        self._left = limit

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._table, name)
        return self._dying(real) if name in {"write", "clear"} else real

    def _dying(self, real: Callable[..., bool]) -> Callable[..., bool]:
        def asked(*args: Any) -> bool:
            done = real(*args)
            self._left -= 1
            if not self._left:
                raise _Crash
            return done

        return asked


@dataclass
class Place:
    """A database, and how it loses everything."""

    table: Callable[[], RemoteTable]
    lose: Callable[[], object]

    def opened(self) -> RemoteStore:
        return RemoteStore(self.table(), NAME)

    def rows(self) -> dict[bytes, bytes]:
        return dict(self.opened().scan(b"", None))


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="module")
def dynamo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DynamoServer]:
    with (
        DynamoServer(tmp_path_factory.mktemp("dynamodb")) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        in_environment(server, patch)
        yield server


@pytest.fixture(params=["redis", "redis in parts", "dynamodb", "dynamodb in parts", "fake"])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "fake":
        database = Database()
        return Place(lambda: database.table(NAME, None), database.flush)
    if "dynamodb" in request.param:
        found: DynamoServer = request.getfixturevalue("dynamo")
        found.lose()
        rows = 4 if "parts" in request.param else 98
        return Place(lambda: DynamoTable(DynamoLink(found.settings()), NAME, rows), found.lose)
    server: RedisServer = request.getfixturevalue("redis")
    server.ask("FLUSHALL")
    part_rows = 4 if "parts" in request.param else 1_000
    return Place(
        lambda: RedisTable(RedisLink(server.settings()), NAME, part_rows),
        lambda: server.ask("FLUSHALL"),
    )


@pytest.fixture
def store(place: Place) -> RemoteStore:
    store = place.opened()
    store.write(BEFORE.items(), [])
    return store


def test_the_next_owner_finds_the_rows(store: RemoteStore, place: Place) -> None:
    assert place.rows() == BEFORE


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.get_many([b"01"]),
        lambda store: store.write([(b"01", b"late")], []),
        lambda store: store.write(PUTS, GONE),
        lambda store: list(store.scan(b"", None)),
        lambda store: store.scan_many([(b"00", b"99")]),
        lambda store: store.count(b"00", b"99"),
        lambda store: store.wipe(),
    ],
)
def test_a_zombie_is_refused_and_changes_nothing(
    store: RemoteStore, place: Place, use: Callable[[RemoteStore], object]
) -> None:
    owner = place.opened()
    with pytest.raises(Fenced, match="another owner"):
        use(store)
    owner.write(PUTS, GONE)
    with pytest.raises(Fenced):
        use(store)
    assert dict(owner.scan(b"", None)) == AFTER


def test_a_batch_is_there_whole_or_not_at_all_wherever_its_process_dies(place: Place) -> None:
    seen = []
    for limit in count(1):
        place.lose()
        place.opened().write(BEFORE.items(), [])
        dying = RemoteStore(_Crashing(place.table(), limit + 1), NAME)  # the first one is the claim
        try:
            dying.write(PUTS, GONE)
        except _Crash:
            seen.append(place.rows())
        else:
            break
    assert seen[-1] == AFTER, "after its last request"
    # What is torn is removed: it is restored from the changelog.
    assert all(rows == {} for rows in seen[:-1])
    assert len(seen) == -(-13 // place.table().part_rows)


def test_a_torn_store_stays_torn_until_its_rows_are_removed(place: Place) -> None:
    place.opened().write(BEFORE.items(), [])
    table = place.table()
    if table.part_rows > len(PUTS):
        pytest.skip("a batch is one request")
    with pytest.raises(_Crash):
        RemoteStore(_Crashing(table, 2), NAME).write(PUTS, GONE)
    with pytest.raises(_Crash):
        RemoteStore(_Crashing(place.table(), 1), NAME)
    assert place.rows() == {}


def test_an_owner_whose_batch_failed_in_the_middle_neither_reads_nor_writes(place: Place) -> None:
    store = RemoteStore(_Crashing(place.table(), 2), NAME)
    if place.table().part_rows > len(PUTS):
        pytest.skip("a batch is one request")
    with pytest.raises(_Crash):
        store.write(PUTS, GONE)
    with pytest.raises(StoreUnavailable, match="not as this executor has left it"):
        store.get_many([b"05"])
    with pytest.raises(StoreUnavailable):
        store.write([(b"1", b"1")], [])


def test_a_store_that_was_warmed_is_taken_over_as_it_is_and_warmed_no_more(place: Place) -> None:
    WarmedStore(place.table(), NAME).write(BEFORE.items(), [])
    warmer = WarmedStore(place.table(), NAME)
    assert dict(warmer.scan(b"", None)) == BEFORE, "another executor warms it further"
    owner = place.opened()
    for use in (
        lambda: warmer.write(PUTS, GONE),
        lambda: warmer.get_many([b"01"]),
        warmer.wipe,
        lambda: WarmedStore(place.table(), NAME),
    ):
        with pytest.raises(Fenced, match="has an owner by now"):
            use()
    owner.write(PUTS, GONE)
    assert dict(owner.scan(b"", None)) == AFTER


def test_whoever_looks_first_and_claims_late_does_not_warm_an_owners_store(place: Place) -> None:
    owners: list[RemoteStore] = []

    class Slow:
        """The owner opens the store between the look at the stamp and the claim."""

        def __init__(self) -> None:
            self._table = place.table()

        def __getattr__(self, name: str) -> Any:
            if name in {"write", "clear"} and not owners:
                owners.append(place.opened())
            return getattr(self._table, name)

    with pytest.raises(Fenced, match="has an owner by now"):
        WarmedStore(Slow(), NAME)
    owners[0].write(PUTS, [])
    assert dict(owners[0].scan(b"", None)) == dict(PUTS)


def test_warming_that_was_interrupted_is_begun_anew(place: Place) -> None:
    for opened in (lambda: WarmedStore(place.table(), NAME), place.opened):
        place.lose()
        with pytest.raises(_Crash):
            WarmedStore(_Crashing(place.table(), 2), NAME).write(PUTS, [])
        found = dict(opened().scan(b"", None))
        assert found == (dict(PUTS) if place.table().part_rows > len(PUTS) else {})


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.get_many([b"01"]),
        lambda store: store.get_many([b"%02d" % n for n in range(3_000)]),
        lambda store: store.write(PUTS, GONE),
        lambda store: list(store.scan(b"", None)),
        lambda store: store.count(b"00", b"99"),
        lambda store: store.wipe(),
    ],
)
def test_a_store_that_was_emptied_is_noticed(
    store: RemoteStore, place: Place, use: Callable[[RemoteStore], object]
) -> None:
    place.lose()
    with pytest.raises(StoreUnavailable, match="was emptied"):
        use(store)
    assert place.rows() == {}


def test_an_older_copy_is_noticed(redis: RedisServer) -> None:
    """As after a failover to a replica that lacked the last writes."""
    redis.ask("FLUSHALL")
    store = RemoteStore(RedisTable(RedisLink(redis.settings()), NAME), NAME)
    store.write(BEFORE.items(), [])
    for key in ("rows", "keys"):
        redis.ask("COPY", f"holdfast:{{{NAME}}}:{key}", f"{{{NAME}}}{key}")
    store.write(PUTS, GONE)
    for key in ("rows", "keys"):
        redis.ask("COPY", f"{{{NAME}}}{key}", f"holdfast:{{{NAME}}}:{key}", "REPLACE")
    with pytest.raises(StoreUnavailable, match="not as this executor has left it"):
        store.get_many([b"00"])
    again = RemoteStore(RedisTable(RedisLink(redis.settings()), NAME), NAME)
    assert dict(again.scan(b"", None)) == BEFORE


@pytest.mark.parametrize("key", ["rows", "keys"])
def test_a_key_that_the_server_removed_to_make_room_is_noticed(
    redis: RedisServer, key: str
) -> None:
    redis.ask("FLUSHALL")
    store = RemoteStore(RedisTable(RedisLink(redis.settings()), NAME), NAME)
    store.write(BEFORE.items(), [])
    redis.ask("DEL", f"holdfast:{{{NAME}}}:{key}")
    for use in (
        lambda: list(store.scan(b"", None)),
        lambda: store.scan_many([(b"00", b"99")]),
        lambda: store.count(b"00", b"99"),
        lambda: store.write(PUTS, GONE),
    ):
        with pytest.raises(StoreUnavailable, match=r"was emptied|not as this executor has left it"):
            use()
    again = RemoteStore(RedisTable(RedisLink(redis.settings()), NAME), NAME)
    assert list(again.scan(b"", None)) == []
    again.write(PUTS, [])
    assert list(again.scan(b"", None)) == PUTS


def test_stores_of_a_job_are_found_and_deleted(redis: RedisServer) -> None:
    redis.ask("FLUSHALL")
    _check_listed(redis.settings())


def _check_listed(settings: RemoteSettings) -> None:
    names = ["app/ctas_t/0", "app/ctas_t/11", "app/ctas_t-g1/0", "app.two/ctas_t/0", "app2/c/0"]
    for name in names:
        open_remote(settings, name).write([(b"a", b"1")], [])
    stores = RemoteStores(settings, "app")
    kept = [("app", "ctas_t", 0), ("app", "ctas_t", 11)]
    assert stores.stores() == sorted([*kept, ("app", "ctas_t-g1", 0)])
    stores.delete_store("app", "ctas_t-g1", 0)
    assert stores.stores() == kept
    assert RemoteStores(settings, "app.two").stores() == [("app.two", "ctas_t", 0)]
    with read_remote(settings, "app/ctas_t/0") as store:
        assert dict(store.scan(b"", None)) == {b"a": b"1"}


def test_whoever_only_reads_takes_nothing_and_sees_one_moment(place: Place) -> None:
    with pytest.raises(StoreCorrupted, match="cannot be read as of one moment"):
        RemoteSnapshot(place.table(), NAME)
    owner = place.opened()
    owner.write(BEFORE.items(), [])
    reader = RemoteSnapshot(place.table(), NAME)
    assert dict(reader.scan(b"", None)) == BEFORE
    for change in (partial(reader.write, PUTS, []), reader.wipe):
        with pytest.raises(Refused, match="only read here"):
            change()
    owner.write(PUTS, GONE)
    with pytest.raises(StoreCorrupted, match="cannot be read as of one moment"):
        list(reader.scan(b"", None))
    assert dict(owner.scan(b"", None)) == AFTER


def test_digests_of_a_jobs_stores_are_those_of_their_rows(
    redis: RedisServer, tmp_path: Path
) -> None:
    redis.ask("FLUSHALL")
    position = StorePosition("id", 7, 1, "fp")
    volume = claim(tmp_path, 1, 0.0)
    remote = StateSettings(backend="remote", remote=redis.settings())
    for settings in (StateSettings(), remote):
        for partition in (0, 1):
            store = open_table_store(settings, volume, "app", "t", partition, windowed=False)
            keys, rows = [b"a", b"b%d" % partition], [b"1", b"2"]
            store.apply(keys, rows, created=keys, removed=0, position=position, marker=None)
            store.close()
    found = remote_digests(redis.settings(), "app")
    assert [replace(each, volume=0) for each in found] == store_digests(tmp_path, "app")
    assert [each.rows for each in found] == [2, 2]
    assert remote_digests(redis.settings(), "other") == []


def test_what_is_no_stamp_belongs_to_nobody_and_is_removed(
    redis: RedisServer,
) -> None:
    redis.ask("FLUSHALL")
    redis.ask("HSET", f"holdfast:{{{NAME}}}:rows", b"stamp", b"\xff", b"kold", b"1")
    store = RemoteStore(RedisTable(RedisLink(redis.settings()), NAME), NAME)
    assert list(store.scan(b"", None)) == []
    assert store.get_many([b"old"]) == [None]


_PAGE = Path(__file__).parents[3] / "jobs" / "docs" / "remote-state.md"


def _rights() -> list[tuple[str, ...]]:
    """Reads what the page tells an administrator to give."""
    wide, commands = re.findall(r"A user with `(.*?)`, or the commands (.*?)\.", _squeezed())[0]
    names = (name.lower() for name in re.split(r", | and ", commands))
    return [tuple(wide.split()), ("~holdfast:*", *(f"+{n.replace(' ', '|')}" for n in names))]


def _squeezed() -> str:
    return re.sub(r"\s+", " ", _PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("rights", _rights(), ids=["wide", "narrow"])
def test_the_rights_that_the_page_names_are_enough(tmp_path: Path, rights: tuple[str, ...]) -> None:
    password = tmp_path / "password"
    password.write_text("canary\n")
    with RedisServer(tmp_path, "--user", "clerk", "on", ">canary", *rights) as server:
        settings = replace(server.settings("clerk", str(password)), uri=f"{server.uri[:-1]}3")
        store = RemoteStore(RedisTable(RedisLink(settings), NAME), NAME)
        store.write(PUTS, GONE)
        assert list(store.scan(b"", None)) == PUTS
        assert store.count(b"", b"9") == len(PUTS)
        assert store.bytes_on_disk() > 0
        store.wipe()
        assert stores_of(settings, "app") == [("app", "ctas_t", 0)]
        delete_store(settings, NAME)


def test_a_password_that_is_not_there_is_asked_for(redis: RedisServer, tmp_path: Path) -> None:
    password = tmp_path / "password"
    for how in ("cannot be read", "is empty"):
        with pytest.raises(InvalidConfig, match=how):
            RedisLink(redis.settings("clerk", str(password)))
        password.write_text("\n")


@pytest.mark.parametrize(("user", "given"), [("clerk", "wrong"), ("nobody", "canary")])
def test_a_wrong_password_is_told_and_not_shown(tmp_path: Path, user: str, given: str) -> None:
    password = tmp_path / "password"
    password.write_text(f"{given}\n")
    with RedisServer(tmp_path, "--user", "clerk", "on", ">canary", "~*", "+@all") as server:
        link = RedisLink(server.settings(user, str(password)))
        with pytest.raises(StoreUnavailable, match="refuses this user") as refused:
            RedisTable(link, NAME).stamp()
    assert given not in str(refused.value)


def test_a_full_server_is_told_and_nothing_is_written(tmp_path: Path) -> None:
    with RedisServer(tmp_path, "--maxmemory", "3mb") as server:
        store = RemoteStore(RedisTable(RedisLink(server.settings()), NAME), NAME)
        store.write(BEFORE.items(), [])

        def fill() -> None:
            for n in range(0, 20_000, 500):
                store.write([(b"%06d" % key, bytes(1_000)) for key in range(n, n + 500)], [])

        with pytest.raises(VolumeFull, match="is full"):
            fill()
        server.ask("CONFIG", "SET", "maxmemory", "100mb")
        again = RemoteStore(RedisTable(RedisLink(server.settings()), NAME), NAME)
        rows = dict(again.scan(b"", None))
        assert len(rows) % 500 == len(BEFORE), "whole batches"


def test_a_server_that_is_away_is_told_in_time(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server:
        store = RemoteStore(RedisTable(RedisLink(server.settings()), NAME), NAME)
        store.write(BEFORE.items(), [])
        for gone, back in ((server.kill, server.start), (server.pause, server.resume)):
            gone()
            began = time.monotonic()
            with pytest.raises(StoreUnavailable, match="does not answer"):
                store.write(PUTS, GONE)
            assert time.monotonic() - began < 10
            back()
            assert store.get_many([b"00"]) == [b"old"], "the same owner goes on"


def test_a_connection_that_the_server_closed_for_want_of_use_is_made_again(tmp_path: Path) -> None:
    with RedisServer(tmp_path, "--timeout", "1") as server:
        store = RemoteStore(RedisTable(RedisLink(server.settings()), NAME), NAME)
        store.write(BEFORE.items(), [])
        _until_alone(server)
        assert store.get_many([b"00"]) == [b"old"]
        _until_alone(server)
        store.write(PUTS, GONE)
        assert dict(store.scan(b"", None)) == AFTER


def _until_alone(server: RedisServer) -> None:
    """Waits until the server has closed all other connections."""
    deadline = time.monotonic() + 30
    while str(server.ask("CLIENT", "LIST")).count("name=holdfast") > 1:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_tls_is_spoken_and_certificates_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority("ours", tmp_path)
    certificate, key = authority.issue("redis")
    options = ("--tls-cert-file", str(certificate), "--tls-key-file", str(key),
               "--tls-ca-cert-file", str(authority.path), "--tls-auth-clients", "no")  # fmt: skip
    with RedisServer(tmp_path, *options, tls=True) as server:
        with pytest.raises(StoreUnavailable, match="certificate verify failed"):
            RedisTable(RedisLink(server.settings()), NAME).stamp()
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
        assert RedisTable(RedisLink(server.settings()), NAME).stamp() is None


def test_stores_of_a_job_in_dynamodb_are_found_and_deleted(dynamo: DynamoServer) -> None:
    dynamo.lose()
    _check_listed(dynamo.settings())
    assert RemoteStores(dynamo.settings("no.such.table"), "app").stores() == []


def test_a_table_that_was_deleted_is_made_again(dynamo: DynamoServer) -> None:
    store = open_remote(dynamo.settings("dropped"), NAME)
    store.write(BEFORE.items(), [])
    DynamoLink(dynamo.settings("dropped")).ask("delete_table", TableName="dropped")
    with pytest.raises(StoreUnavailable, match="There is no table dropped in eu-west-1"):
        store.get_many([b"00"])
    again = open_remote(dynamo.settings("dropped"), NAME)
    again.write(PUTS, [])
    assert list(again.scan(b"", None)) == PUTS


def test_a_table_with_other_keys_is_refused(dynamo: DynamoServer) -> None:
    DynamoLink(dynamo.settings()).ask(
        "create_table",
        TableName="of.others",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    with pytest.raises(Refused, match="its partition key is `s`"):
        open_remote(dynamo.settings("of.others"), NAME)


def test_rows_of_every_size_that_dynamodb_takes(dynamo: DynamoServer) -> None:
    dynamo.lose()
    store = open_remote(dynamo.settings(), NAME)
    largest = [(b"%04d" % n + b"k" * 1_018, bytes(407_554)) for n in range(12)]  # > 4 MB
    store.write([*largest, (b"", b""), (b"\xff" * 1_022, b"")], [])
    rows = dict(largest) | {b"": b"", b"\xff" * 1_022: b""}
    assert dict(store.scan(b"", None)) == rows
    assert store.count(b"", b"\xff" * 1_022) == 13
    assert store.get_many([b"", b"", b"no", b"k" * 2_000]) == [b"", b"", None, None]
    for row in ((b"k" * 1_023, b""), (b"k", bytes(408_576))):
        with pytest.raises(Refused, match=r"does not fit in DynamoDB.*of 1,022.*of 408,576"):
            store.write([row], [])


def test_thousands_of_rows_and_ranges_in_dynamodb(dynamo: DynamoServer) -> None:
    dynamo.lose()
    store = open_remote(dynamo.settings(), NAME)
    rows = {b"%05d" % n: b"v" * 900 for n in range(2_500)}  # a page of a query is 1 MB
    store.write(rows.items(), [])
    assert dict(store.scan(b"", None)) == rows
    assert store.get_many(list(rows)) == list(rows.values())
    assert store.count(b"00001", b"02000") == 1_999
    assert store.count(b"00001", b"02000x") == 2_000
    ranges = [(b"%05d" % n, b"%05d" % (n + 2)) for n in range(0, 60, 2)] + [(b"9", b"1")]
    found = store.scan_many(ranges)
    assert [len(pairs) for pairs in found] == [2] * 30 + [0]
    assert list(store.scan(b"00010", None, 3)) == list(rows.items())[10:13]
    store.wipe()
    assert list(store.scan(b"", None)) == []


def test_dynamodb_that_is_away_is_told_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DynamoServer(tmp_path) as server:
        in_environment(server, monkeypatch)
        patient = replace(server.settings(), timeout_ms=60_000)
        open_remote(patient, NAME).write(BEFORE.items(), [])  # its first requests take long
        store = open_remote(replace(patient, timeout_ms=2_000), NAME)
        for gone, back in ((server.pause, server.resume), (server.kill, server.start)):
            gone()
            began = time.monotonic()
            with pytest.raises(StoreUnavailable, match="does not answer"):
                store.get_many([b"00"])
            assert time.monotonic() - began < 30
            back()
            if back == server.resume:
                assert store.get_many([b"00"]) == [b"old"], "the same owner goes on"
        assert list(open_remote(patient, NAME).scan(b"", None)) == [], "its memory is gone"


@pytest.mark.parametrize(
    ("code", "reason", "told"),
    [
        ("ProvisionedThroughputExceededException", None, "is throttled"),
        ("TransactionCanceledException", "TransactionConflict", "is throttled"),
        ("TransactionCanceledException", "ThrottlingError", "is throttled"),
        ("AccessDeniedException", None, "refuses this user"),
        ("ExpiredTokenException", None, "refuses this user"),
    ],
)
def test_answers_that_pass_are_waited_for(
    dynamo: DynamoServer, code: str, reason: str | None, told: str
) -> None:
    """DynamoDB Local neither throttles nor refuses: the answers are those that AWS documents."""
    link = DynamoLink(dynamo.settings())
    answer: dict[str, Any] = {"Error": {"Code": code, "Message": "so it is"}}
    if reason is not None:
        answer["CancellationReasons"] = [{"Code": "None"}, {"Code": reason}]
    body = {**answer, "ResponseMetadata": {"HTTPStatusCode": 400}}

    def refuse(**_: object) -> None:
        raise ClientError(body, "GetItem")

    link._client = SimpleNamespace(get_item=refuse)
    with pytest.raises(StoreUnavailable, match=told):
        DynamoTable(link, NAME).stamp()


def test_credentials_that_are_missing_are_told(
    dynamo: DynamoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    settings = replace(dynamo.settings(), timeout_ms=4_999)  # a client of its own
    with pytest.raises(StoreUnavailable, match="Unable to locate credentials"):
        open_remote(settings, NAME)

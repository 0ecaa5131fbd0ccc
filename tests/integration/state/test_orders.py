"""Orders to a job's queries, on a real broker: the topic, obedience, and refusals."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.deployed.orders import give_orders, job_of
from holdfast.cli.main import main
from holdfast.errors import KafkaUnavailable, RecordTooLarge, Refused
from holdfast.local.broker import BrokerStatus
from holdfast.runtime.steering import Steering
from holdfast.runtime.watching.health import Health
from holdfast.runtime.watching.metrics import Metrics
from holdfast.runtime.watching.scoreboard import Scoreboard
from holdfast.sql import compile_text
from holdfast.state.topics.orders import Order, OrderBook, Told, jobs_with_orders
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.idempotent_producer import Producer
from holdfast.types.statements.topology import Query
from holdfast.types.status import QueryState

RUNNING, PAUSED, TERMINATED = QueryState.RUNNING, QueryState.PAUSED, QueryState.TERMINATED
SQL = """
CREATE STREAM o (id INT KEY, c INT, v BIGINT) WITH (KAFKA_TOPIC='o', VALUE_FORMAT='JSON');
CREATE TABLE c (id INT PRIMARY KEY, city STRING) WITH (KAFKA_TOPIC='c', VALUE_FORMAT='JSON');
CREATE TABLE sums AS SELECT c.city, SUM(o.v) AS total FROM o JOIN c ON o.c = c.id GROUP BY c.city;
CREATE STREAM big AS SELECT * FROM o WHERE v > {least};
"""


class Run:
    """The part of a running query that steering uses."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.held = False
        self.batch_id = 5
        self.in_hand = False  # a batch that has not ended yet
        self.broker_away = False
        self.too_large = False
        self.prepared = 0
        self.streaming = None

    def hold(self) -> bool:
        self.held = True
        return not self.in_hand

    def release(self) -> None:
        self.held = False

    def give_up_sink(self) -> None:
        """Nobody has claimed it."""

    def prepare(self) -> None:
        if self.broker_away:
            raise KafkaUnavailable("no answer")
        if self.too_large:
            raise RecordTooLarge("a record of 5 MB")
        self.prepared += 1

    def stream(self) -> None:
        assert self.prepared


class Driver:
    """One life of a job's driver, as far as orders go."""

    def __init__(self, client: dict[str, str], job: str, home: Path, least: int = 9) -> None:
        topology = compile_text(SQL.format(least=least))
        ids = [q.id for q in topology.queries]
        self.runs = {q.id: Run(q) for q in topology.queries}
        self.health = Health(ids, 60.0)
        self.standing: list[str] = []
        self.board = Scoreboard(str(home), job, topology.queries, Metrics(job))
        self._steering = Steering(
            OrderBook(Admin(client), client, job), topology.queries, self.board, self.health,
            threading.Event(),
        )  # fmt: skip
        self._steering.at_start(self._runs)
        self.look()

    @property
    def _runs(self) -> list[Any]:
        return list(self.runs.values())

    def look(self) -> None:
        self._steering._next = 0.0
        self._steering.look(self._runs, lambda run_, _: self.standing.append(run_.query.id))

    def held(self) -> set[str]:
        return {i for i, run in self.runs.items() if run.held}


@pytest.fixture
def client(kafka: BrokerStatus) -> dict[str, str]:
    return {"bootstrap.servers": kafka.bootstrap_servers}


@pytest.fixture
def job(kafka_topic_name: Callable[[str], str]) -> str:
    return kafka_topic_name("app")


def test_a_driver_obeys_at_once_at_the_start_and_steps_together(
    client: dict[str, str], job: str, tmp_path: Path
) -> None:
    driver = Driver(client, job, tmp_path)
    book = OrderBook(Admin(client), client, job)
    assert book.refresh()
    assert {i: (t.state, t.sink) for i, t in book.told.items()} == {
        "ctas_sums": (RUNNING, "SUMS"), "csas_big": (RUNNING, "BIG"),
    }  # fmt: skip

    steps = {i for i in driver.runs if i.startswith("ctas_sums")}
    assert len(steps) == 2
    last = driver.runs["ctas_sums"]
    last.in_hand = True
    assert give_orders(book, "PAUSE", "CTAS_SUMS_0", wait_s=0).waiting == ("ctas_sums",)
    driver.look()
    assert driver.held() == steps
    assert driver.board.state_of("ctas_sums") is RUNNING, "its batch in hand has not ended"
    last.in_hand = False
    driver.look()
    assert driver.board.state_of("ctas_sums") is PAUSED
    book.refresh()
    assert book.told["ctas_sums"].state is PAUSED
    assert book.told["ctas_sums"].token == book.orders["ctas_sums"].token

    successor = Driver(client, job, tmp_path)
    assert successor.held() == steps
    successor.runs["ctas_sums"].broker_away = True
    give_orders(book, "RESUME", None, wait_s=0)
    successor.look()
    assert successor.held() == {"ctas_sums"}, "the broker did not answer: tried again"
    assert successor.health.why_not_ready() == ""
    successor.runs["ctas_sums"].broker_away = False
    successor.look()
    assert successor.held() == set()
    assert all(successor.runs[i].prepared == 1 for i in steps)
    assert successor.runs["csas_big"].prepared == 0
    assert successor.standing == []
    outcome = give_orders(book, "RESUME", "ctas_sums", wait_s=0)
    successor.look()
    assert book.refresh()
    assert outcome.waiting == ("ctas_sums",), "an order to do what it does is obeyed as well"
    assert book.told["ctas_sums"].token == book.orders["ctas_sums"].token


def test_a_resumed_query_with_a_record_too_large_stands_still(
    client: dict[str, str], job: str, tmp_path: Path
) -> None:
    driver = Driver(client, job, tmp_path)
    book = OrderBook(Admin(client), client, job)
    assert book.refresh()
    give_orders(book, "PAUSE", "csas_big", wait_s=0)
    driver.look()
    driver.runs["csas_big"].too_large = True
    give_orders(book, "RESUME", "csas_big", wait_s=0)
    driver.look()
    assert driver.standing == ["csas_big"]
    assert driver.held() == set()
    assert driver.board.state_of("csas_big") is RUNNING


def test_a_terminated_query_starts_when_it_is_restored_or_created_anew(
    client: dict[str, str], job: str, tmp_path: Path
) -> None:
    driver = Driver(client, job, tmp_path)
    book = OrderBook(Admin(client), client, job)
    book.refresh()
    give_orders(book, "TERMINATE", "csas_big", wait_s=0)
    driver.look()
    assert driver.board.state_of("csas_big") is TERMINATED
    assert Driver(client, job, tmp_path).held() == {"csas_big"}

    book.refresh()
    for verb in ("PAUSE", "RESUME"):
        with pytest.raises(Refused, match="csas_big was terminated"):
            give_orders(book, verb, "csas_big", wait_s=0)
    assert give_orders(book, "RESUME", None, wait_s=0).waiting == ("ctas_sums",)
    give_orders(book, "RESUME", "csas_big", restore=True, wait_s=0)
    assert Driver(client, job, tmp_path).held() == set()

    book.refresh()
    give_orders(book, "TERMINATE", "csas_big", wait_s=0)
    assert Driver(client, job, tmp_path).held() == {"csas_big"}
    assert Driver(client, job, tmp_path, least=10).held() == set(), "another statement"


def test_a_query_that_left_the_file_and_came_back_is_created_anew(
    client: dict[str, str], job: str, tmp_path: Path
) -> None:
    first = Driver(client, job, tmp_path)
    book = OrderBook(Admin(client), client, job)
    book.refresh()
    give_orders(book, "PAUSE", "csas_big", wait_s=0)
    first.look()
    book.tell({}, gone=["csas_big"])  # as a driver does whose file has it no longer
    for _ in range(2):
        assert Driver(client, job, tmp_path).held() == set()
    book.refresh()
    assert book.orders["csas_big"].wanted is RUNNING


def test_what_is_not_an_order_is_passed_over_and_a_new_topic_read_from_its_start(
    client: dict[str, str], job: str
) -> None:
    admin = Admin(client)
    book = OrderBook(admin, client, job)
    assert not book.refresh()
    book.write_orders({"a": Order(PAUSED, "s"), "b": Order(PAUSED, "s")})
    producer = Producer(client)
    for key, value in ((b"order:a", b"{"), (b"order:c", b'{"wanted": "OTHER"}'), (b"other", b"x")):
        producer.send(book.topic, key, value, partition=0)
    producer.flush()
    assert book.refresh()
    assert {i: o.wanted for i, o in book.orders.items()} == {"b": PAUSED}
    assert job in jobs_with_orders(client)

    admin.delete_topic(book.topic)
    assert not book.refresh()
    assert not book.orders
    book.tell({"d": Told(RUNNING, "D", "s")})
    assert book.refresh()
    assert (list(book.orders), list(book.told)) == ([], ["d"])


def test_the_job_that_is_meant(client: dict[str, str], job: str) -> None:
    admin = Admin(client)
    told = {"ctas_x": Told(RUNNING, "X", "s")}
    found = {name: OrderBook(admin, client, name) for name in (f"{job}-1", f"{job}-2")}
    for book in found.values():
        book.told.update(told)
    found[f"{job}-2"].told["ctas_y"] = Told(RUNNING, "Y", "s")
    assert job_of(found, None, "CTAS_Y_3")[0] == f"{job}-2"
    assert job_of(found, f"{job}-1", None)[0] == f"{job}-1"
    with pytest.raises(Refused, match="2 jobs have a query ctas_x"):
        job_of(found, None, "ctas_x")
    with pytest.raises(Refused, match=r"Unknown queryId: ctas_z\n.*did you mean ctas_"):
        job_of(found, None, "ctas_z")
    with pytest.raises(Refused, match="has reported"):
        job_of(found, "nobody", "ctas_x")
    with pytest.raises(Refused, match=r"Unknown queryId: ctas_yy\n.*did you mean ctas_y"):
        give_orders(found[f"{job}-2"], "PAUSE", "ctas_yy", wait_s=0)


def test_orders_are_given_and_shown_in_a_session_and_by_commands(
    client: dict[str, str], job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = Driver(client, job, tmp_path)
    servers = ["--set", f"bootstrap.servers={client['bootstrap.servers']}"]
    named = ["--set", f"application.id={job}", *servers, "--home", str(tmp_path)]
    assert main(["pause", "csas_big", "--timeout", "0", *named]) == 0
    assert "has not obeyed the order yet" in capsys.readouterr().out
    driver.look()
    script = SQL.format(least=9)
    shown = "SHOW QUERIES; DESCRIBE big EXTENDED;"
    assert main(["sql", "-e", script + shown, *named]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"{job} csas_big PAUSED" in lines
    assert f"{job} ctas_sums RUNNING" in lines
    assert f"csas_big of {job} PAUSED" in lines

    obeying = threading.Event()

    def obey() -> None:
        while not obeying.wait(0.05):
            driver.look()

    thread = threading.Thread(target=obey)
    thread.start()
    try:
        assert main(["sql", "-e", script + "TERMINATE ctas_sums; SHOW QUERIES;", *named]) == 0
        ended = capsys.readouterr().out
        assert f"ctas_sums of {job} is TERMINATED." in ended
        assert "The script has it no longer." in ended
        assert main(["resume", "--all", "--restore", "--json", *named]) == 0
    finally:
        obeying.set()
        thread.join()
    assert '"ctas_sums":"RUNNING"' in capsys.readouterr().out
    assert main(["pause", "csas_bigg", *named]) == 2
    assert "did you mean csas_big?" in capsys.readouterr().err
    assert main(["pause", *named]) == 2

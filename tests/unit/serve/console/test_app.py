from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.errors import HoldfastError
from holdfast.serve.console.app import Console
from holdfast.serve.console.jobs import Beside
from holdfast.serve.contract import MemberState, Serving
from holdfast.serve.http.app import CLIENT
from holdfast.serve.http.guard.access import ANYONE, Client
from holdfast.serve.http.problems import problem
from holdfast.types.snapshots import SnapshotState
from tests.support.console.driver import DriverOf
from tests.support.console.home import CHAOS_RUN, PLAN_RUN, REPORT, write_chaos_run, write_plan
from tests.support.console.world import World

GUEST = Client("guest", ("PER_CITY",))


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


@dataclass
class Asking:
    """Asks the application as the server does."""

    world: World
    serving: Serving
    console: Console

    def get(
        self, path: str, *, client: Client = ANYONE, method: str = "GET", **headers: str
    ) -> Answer:
        async def run() -> Answer:
            await self.console.sample()
            return await self._once(path, client, method, headers)

        return asyncio.run(run())

    async def _once(
        self, path: str, client: Client, method: str, headers: Mapping[str, str]
    ) -> Answer:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b""}

        async def send(message: Any) -> None:
            sent.append(message)

        before, _, query = path.partition("?")
        scope = {
            "type": "http", "method": method, "path": unquote(before),
            "query_string": query.encode("latin-1"),
            "headers": [(n.replace("_", "-").encode(), v.encode()) for n, v in headers.items()],
            CLIENT: client,
        }  # fmt: skip
        try:
            await self.console(scope, receive, send)
        except HoldfastError as error:
            assert sent == [], "an answer had begun"
            status, body = problem(error)
            return Answer(status, {}, orjson.dumps(body))
        head = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
        return Answer(sent[0]["status"], head, b"".join(m.get("body", b"") for m in sent[1:]))


@pytest.fixture
def asking(tmp_path: Path) -> Asking:
    world = World()
    for number in range(5):
        world.put("PER_CITY", [f"c{number}"], [number, 10 * number])
        world.put("PER_CUSTOMER", [f"k{number}"], [number, 10 * number])
    driver = DriverOf(world, lag=12)
    driver.batch(400, seconds=0.5, commit_seconds=0.02)
    write_chaos_run(tmp_path)
    write_plan(tmp_path)
    serving = world.serving(tmp_path)
    return Asking(world, serving, Console(serving, Beside([driver.url])))


def test_the_page_is_under_a_policy_that_lets_nothing_else_in(asking: Asking) -> None:
    page = asking.get("/console/")
    assert page.status == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert asking.get("/console").headers["location"] == "/console/"


def test_files_are_sent_again_only_when_they_changed(asking: Asking) -> None:
    first = asking.get("/console/static/js/main.js")
    assert (first.status, first.headers["cache-control"]) == (200, "no-cache")
    assert first.headers["content-type"] == "text/javascript; charset=utf-8"
    again = asking.get("/console/static/js/main.js", if_none_match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    other = asking.get("/console/static/js/main.js", if_none_match='"another"')
    assert other.body == first.body


@pytest.mark.parametrize(
    "path",
    ["/console/static/../app.py", "/console/static/", "/console/static/js", "/console/nothing",
     "/console/api/", "/console/api/nothing", "/console/api/chaos/a/b/report.html",
     "/console/api/overview/"],
)  # fmt: skip
def test_what_is_not_there_is_not_found(asking: Asking, path: str) -> None:
    assert asking.get(path).status == 404


def test_nothing_can_be_changed(asking: Asking) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert asking.get("/console/api/overview", method=method).status == 405


def test_the_overview_tells_of_server_job_and_tables(asking: Asking) -> None:
    told = asking.get("/console/api/overview").json
    assert told["server"]["application_id"] == "shop"
    assert [(m["id"], m["me"], m["rows"]) for m in told["members"]] == [
        ("0", True, 10),
        ("1", False, 10),
    ]
    (job,) = told["jobs"]
    assert (job["state"], job["answers"], job["lag"], job["executors"]) == (
        "running",
        True,
        12,
        ["0", "1"],
    )
    relations = {r["name"]: r for r in told["relations"]}
    assert list(relations)[:2] == ["ORDERS", "CUSTOMERS"]
    city = relations["PER_CITY"]
    assert (city["rows"], city["records"], city["source_lag"], city["held"]) == (5, 400, 12, 4)
    assert city["served"]
    assert not relations["PLACED"]["served"]
    assert "no rows by key" in relations["PLACED"]["reason"]
    assert relations["PER_PRODUCT_MINUTE"]["window"] == "TUMBLING"
    minute = relations["PER_PRODUCT_MINUTE"]
    assert (minute["late"], minute["input"], minute["null_keys"], minute["dead_letters"]) == (
        3, 400, 0, 0,
    )  # fmt: skip
    assert [w.partition(" of")[0] for w in minute["warnings"]] == ["3"]
    assert city["warnings"] == []


def test_a_server_that_is_gone_counts_for_nothing(asking: Asking) -> None:
    asking.world.other_behind = 2
    asking.world.other = MemberState.GONE
    told = asking.get("/console/api/overview").json
    assert [m["state"] for m in told["members"]] == ["READY", "GONE"]
    assert next(r for r in told["relations"] if r["name"] == "PER_CITY")["lag"] == 0


def test_partitions_have_their_executor_and_all_of_their_copies(asking: Asking) -> None:
    asking.world.other_behind = 1
    told = asking.get("/console/api/partitions").json
    assert len(told) == 12
    mine = asking.get("/console/api/partitions?table=PER_CITY").json
    assert mine == [p for p in told if p["table"] == "PER_CITY"]
    assert [p["partition"] for p in mine] == [0, 1, 2, 3]
    assert [p["owner"]["owner"] for p in mine] == ["0", "1", "0", "1"]
    assert [p["owner"]["standbys"][0]["volume"] for p in mine] == ["1", "0", "1", "0"]
    for partition in mine:
        here, there = partition["holders"]
        assert (here["server"], here["lag"], here["restoring"]) == ("0", 0, False)
        assert (there["server"], there["restoring"]) == ("1", True)
        assert there["lag"] == min(1, there["end"])


def test_partitions_have_the_newest_snapshot_if_any_are_taken(tmp_path: Path) -> None:
    world = World()
    for snapshot in (None, SnapshotState(90, 1_000, 4_096, 1_024, 2.5, "The bucket is gone.")):
        serving = world.serving(tmp_path)
        asking = Asking(
            world, serving, Console(serving, Beside([DriverOf(world, snapshot=snapshot).url]))
        )
        told = asking.get("/console/api/partitions").json
        assert len(told) == 12
        shown = asdict(snapshot) if snapshot else None
        assert all(p["owner"]["snapshot"] == shown for p in told)


def test_without_a_driver_the_rest_is_there(tmp_path: Path) -> None:
    world = World()
    serving = world.serving(tmp_path)
    asking = Asking(world, serving, Console(serving))
    assert asking.get("/console/api/overview").json["jobs"] == []
    assert all(p["owner"] is None for p in asking.get("/console/api/partitions").json)
    assert asking.get("/console/api/chaos").json == []


def test_of_jobs_with_the_same_statements_that_counts_which_is_followed(tmp_path: Path) -> None:
    world = World()
    other = DriverOf(world, lag=99, application_id="older")
    ours = DriverOf(world, lag=1)
    elsewhere = "CREATE STREAM s (v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);"
    copies = World(script=f"{elsewhere} CREATE STREAM copies AS SELECT * FROM s;")
    stranger = DriverOf(copies, application_id="stranger")
    serving = world.serving(tmp_path)
    asking = Asking(world, serving, Console(serving, Beside([ours.url, other.url, stranger.url])))
    told = asking.get("/console/api/overview").json
    assert [j["application_id"] for j in told["jobs"]] == ["older", "shop"]
    assert {r["source_lag"] for r in told["relations"] if r["query"]} == {1}
    nodes = asking.get("/console/api/topology").json["nodes"]
    assert {n["changelog"].split("-")[0] for n in nodes if n["changelog"]} == {"shop"}


def test_a_relation_is_explained(asking: Asking) -> None:
    told = asking.get("/console/api/relations/PER_CITY").json
    assert told["statement"].startswith("CREATE TABLE per_city")
    assert "Sub-topology 1" in told["explain"]
    assert told["changelog"] == "shop-ctas_per_city-changelog"
    assert "Source STREAM ORDERS" in asking.get("/console/api/relations/ORDERS").json["explain"]
    assert asking.get("/console/api/relations/NOPE").status == 400


def test_series_grow_with_each_look(asking: Asking) -> None:
    first = asking.get("/console/api/activity").json
    second = asking.get("/console/api/activity").json
    assert len(second["at_ms"]) == len(first["at_ms"]) + 1
    assert "shop/ctas_per_city" in second["queries"]
    assert "PER_CITY" in second["tables"]
    newest = second["at_ms"][-1]
    assert asking.get(f"/console/api/activity?after={newest + 10**9}").json["at_ms"] == []


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "9" * 19, "²", "1 "])
def test_numbers_are_numbers(asking: Asking, text: str) -> None:
    assert asking.get(f"/console/api/activity?after={quote(text)}").status == 400


def test_rows_are_those_of_the_search(asking: Asking) -> None:
    told = asking.get("/console/api/tables/PER_CITY/rows?search=c3").json
    assert [row[:3] for row in told["rows"]] == [["c3", 3, 30]]
    assert len(asking.get("/console/api/tables/PER_CITY/rows?search=").json["rows"]) == 5
    part = asking.get("/console/api/tables/PER_CITY/rows?limit=2").json
    rest = asking.get(f"/console/api/tables/PER_CITY/rows?cursor={quote(part['next'])}").json
    assert len(part["rows"]) + len(rest["rows"]) == 5


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("tables/NOPE/rows", "no table NOPE"),
        ("tables/PLACED/rows", "no rows by key"),
        ("tables/PER_CITY/rows?search=a&search=b", "2 values"),
        ("tables/PER_CITY/rows?cursor=zz", "no place"),
        ("tables/NOPE/changes", "no table NOPE"),
        ("chaos/never", "no chaos run"),
        ("compaction/never", "no plan"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(asking: Asking, path: str, says: str) -> None:
    answer = asking.get(f"/console/api/{path}")
    assert answer.status == 400
    assert says in answer.json["message"]


def test_who_may_not_read_a_table_sees_nothing_of_it(asking: Asking) -> None:
    for path in ("rows", "changes", "rows?search=k1"):
        assert asking.get(f"/console/api/tables/PER_CUSTOMER/{path}", client=GUEST).status == 403
    assert asking.get("/console/api/tables/PER_CITY/rows", client=GUEST).status == 200
    for path in ("overview", "topology", "relations/PER_CITY", "partitions", "activity",
                 "partitions?table=PER_CUSTOMER"):  # fmt: skip
        told = asking.get(f"/console/api/{path}", client=GUEST).body.decode().upper()
        assert "PER_CITY" in told, path
        for hidden in ("PER_CUSTOMER", "PER_PRODUCT", "PLACED", "LARGE_ORDERS", "CUSTOMERS"):
            assert hidden not in told, path
    for name in ("PER_CUSTOMER", "ORDERS", "NOTHING"):
        answer = asking.get(f"/console/api/relations/{name}", client=GUEST)
        assert (answer.status, f"may not read {name}." in answer.json["message"]) == (403, True)


@pytest.mark.parametrize(
    "path", ["jobs", "jobs/shop/log", "topics", "topics/shop_orders", "topics/shop_orders/messages"]
)
def test_who_may_not_read_every_table_sees_no_logs_and_no_topics(asking: Asking, path: str) -> None:
    answer = asking.get(f"/console/api/{path}", client=GUEST)
    assert answer.status == 403
    assert "may not read all of them" in answer.json["message"]


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("topics/__consumer_offsets", 400, "no topic of the served statements"),
        ("topics/__consumer_offsets/messages", 400, "no topic of the served statements"),
        ("topics/shop_orders/messages?limit=101", 400, "not between 1 and 100"),
        ("topics/shop_orders/messages?limit=0", 400, "not between 1 and 100"),
        ("topics/shop_orders/messages?before=3", 400, "`partition` is missing"),
        ("topics/shop_orders/messages?partition=x", 400, "not a number"),
        ("jobs/other/log", 400, "no deployment other on this machine"),
        ("jobs/..%2F..%2Fetc/log", 404, "nothing at"),
    ],
)
def test_a_look_at_anything_else_is_refused_before_kafka_is_asked(
    asking: Asking, path: str, status: int, says: str
) -> None:
    answer = asking.get(f"/console/api/{path}")
    assert answer.status == status
    assert says in answer.json["message"]


def test_every_job_of_the_home_is_told_with_its_queries(asking: Asking) -> None:
    (job,) = asking.get("/console/api/jobs").json
    assert (job["application_id"], job["ready"], job["deployment"]) == ("shop", True, None)
    lost = {q["sink"]: q["dropped_late"] for q in job["queries"]}
    assert lost["PER_PRODUCT_MINUTE"] == 3
    assert lost["PER_CITY"] == 0


def test_sums_over_tables_are_those_of_what_is_seen(asking: Asking) -> None:
    told = asking.get("/console/api/overview", client=GUEST).json
    all_told = asking.get("/console/api/overview").json
    (relation,) = told["relations"]
    assert told["members"][0]["partitions"] == relation["partitions"]
    assert told["members"][0]["partitions"] < all_told["members"][0]["partitions"]
    hidden = [(j["reason"], j["lag"], j["left_out"]) for j in told["jobs"]]
    assert hidden == [("", None, None)]
    assert all_told["jobs"][0]["lag"] is not None
    assert all_told["jobs"][0]["left_out"] == {"late": 3, "null_keys": 0, "dead_letters": 0}


def test_the_overview_tells_that_kafka_is_silent(asking: Asking) -> None:
    asking.world.checked_ms = now_ms = int(time.time() * 1000)
    told = asking.get("/console/api/overview").json["kafka"]
    assert told == {"answers": True, "heard_ms": now_ms}
    assert not _city(asking)["silent"]
    asking.world.checked_ms = now_ms - 60_000
    told = asking.get("/console/api/overview").json["kafka"]
    assert told == {"answers": False, "heard_ms": now_ms - 60_000}
    assert _city(asking)["silent"]


def _city(asking: Asking) -> Any:
    relations = asking.get("/console/api/overview").json["relations"]
    return next(r for r in relations if r["name"] == "PER_CITY")


def test_a_statement_is_seen_by_who_may_read_all_that_it_names(asking: Asking) -> None:
    both = Client("both", ("ORDERS", "PER_CUSTOMER", "PER_CITY"))
    told = asking.get("/console/api/relations/PER_CUSTOMER", client=both).json
    assert told["statement"].startswith("CREATE TABLE per_customer")
    nodes = asking.get("/console/api/topology", client=both).json["nodes"]
    assert {n["title"] for n in nodes if n["kind"] in ("table", "stream")} == {
        "ORDERS", "PER_CUSTOMER", "PER_CITY",
    }  # fmt: skip
    alone = asking.get("/console/api/relations/PER_CITY", client=both).json
    assert (alone["statement"], "may not read" in alone["explain"]) == ("", True)


def test_runs_are_for_who_may_read_every_table(asking: Asking) -> None:
    for kind, run in (("chaos", CHAOS_RUN), ("compaction", PLAN_RUN)):
        for path in (kind, f"{kind}/{run}", f"{kind}/{run}/report.html"):
            assert asking.get(f"/console/api/{path}", client=GUEST).status == 403


def test_runs_and_their_reports(asking: Asking) -> None:
    assert asking.get("/console/api/chaos").json[0]["verdict"] == "invalid"
    assert asking.get(f"/console/api/chaos/{CHAOS_RUN}").json["tables"][0]["name"] == "PER_CUSTOMER"
    assert asking.get("/console/api/compaction").json[0]["state"] == "as predicted"
    assert len(asking.get(f"/console/api/compaction/{PLAN_RUN}").json["topics"]) == 2
    for kind, run in (("chaos", CHAOS_RUN), ("compaction", PLAN_RUN)):
        report = asking.get(f"/console/api/{kind}/{run}/report.html")
        assert report.body.decode() == REPORT
        assert "sandbox" in report.headers["content-security-policy"]


def test_names_cannot_lead_out_of_the_home(asking: Asking) -> None:
    odd = ("..", "%2e%2e", ".", ".hidden", "%00", "a%0a", "n" * 300, "..%2f..%2fetc", "%2fetc")
    for name in odd:
        answer = asking.get(f"/console/api/chaos/{name}")
        report = asking.get(f"/console/api/chaos/{name}/report.html")
        assert {answer.status, report.status} <= {400, 404}


_WORDS = st.sampled_from(
    ["overview", "tables", "PER_CITY", "rows", "changes", "chaos", CHAOS_RUN, "report.html", "..",
     "relations", "activity", "partitions", "compaction", "static", "js", "%00", "%ff", ""]
)  # fmt: skip
_PARTS = st.lists(_WORDS | st.text(max_size=6).map(quote), max_size=5)
_NAMES = st.sampled_from(["search", "cursor", "limit", "after", "table", "x"])
_ASKED = st.lists(st.tuples(_NAMES, st.text(max_size=8) | st.integers().map(str)), max_size=3)


@given(parts=_PARTS, asked=_ASKED, text=st.binary(max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
def test_whatever_is_asked_has_an_answer(
    asking: Asking, parts: list[str], asked: list[tuple[str, str]], text: bytes
) -> None:
    query = urlencode(asked) + text.decode("latin-1")
    path = "/".join(["/console", *parts])
    if path.endswith("/changes"):
        return  # goes on for ever; its refusals are tested above
    assert asking.get(f"{path}?{query}").status in (200, 308, 400, 404)

"""The limits of web pages, strangers and other clients over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from holdfast.cli.servers.serve import command
from holdfast.errors import BadRequest
from holdfast.serve.cluster.peer import token_of_folder
from holdfast.serve.console.app import Console
from holdfast.serve.contract import Member
from holdfast.serve.http.app import HttpApp
from holdfast.serve.http.context import Context
from holdfast.serve.http.guard.access import Access
from holdfast.serve.http.guard.audit import Audit
from holdfast.serve.http.guard.rates import Rates
from holdfast.serve.http.meter import Meter
from holdfast.serve.http.pump import Running
from holdfast.serve.http.request import App, Limits, Request
from holdfast.serve.metrics import metrics_app
from tests.support.browser import Chromium, find_chromium
from tests.support.console.world import World
from tests.support.serve import plain_http as plain
from tests.support.serve.http_world import Served, served
from tests.support.serve.tokens import bearer, entry, tokens_file

ASK = "/v1/query?sql=SELECT%20ONE"
PATHS = [
    "/", "/healthcheck", "/openapi.json", "/info", "/clusterStatus", "/status", "/v1/tables",
    "/v1/servers", ASK, "/console/", "/console/static/app.js", "/console/api/overview",
    "/metrics/", "/internal/health", "/nothing",
]  # fmt: skip
POSTS = ["/query", "/query-stream", "/ksql", "/close-query", "/v1/query", "/v1/session",
         "/internal/get"]  # fmt: skip
FOREIGN: list[dict[str, str]] = [
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"origin": "http://localhost:1"},
    {"origin": "["},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "something-new"},
    {"origin": "http://evil.example", "sec-fetch-site": "same-origin"},
]


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.005)


def _world_server(home: Path, **listen: Any) -> Any:
    world = World()
    mounts: dict[str, App] = {
        "/console": Console(world.serving(home)),
        "/metrics": metrics_app(world),
    }
    return served(home, mounts=mounts, world=world, **listen)


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with _world_server(tmp_path_factory.mktemp("open")) as found:
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Its clients: `all`, `city` and `peer`."""
    home = tmp_path_factory.mktemp("tokens")
    tokens = tokens_file(home, all=["*"], city=["PER_CITY", "CUSTOMERS", "X*"])
    with tokens.open("a") as file:
        file.write(entry("peer", "t-peer-client", [], peer=True))
    with _world_server(home, tokens=tokens, peer_token="t-peer") as found:
        yield found


# -- pages of other sites ------------------------------------------------------------------------


def _statuses(server: Served, headers: dict[str, str]) -> dict[str, int]:
    with httpx.Client(base_url=server.url, headers=headers, trust_env=False, timeout=60) as http:
        found = {f"GET {path}": http.get(path).status_code for path in PATHS}
        body = {"sql": "SELECT ONE", "ksql": "SHOW TABLES;", "queryId": "x"}
        found |= {f"POST {path}": http.post(path, json=body).status_code for path in POSTS}
        found["OPTIONS"] = http.options("/v1/query").status_code
        return found


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_what_a_page_of_another_site_sends_is_refused_on_every_path(
    open_server: Served, headers: dict[str, str]
) -> None:
    before = len(open_server.told.asked)
    assert set(_statuses(open_server, headers).values()) == {403}
    assert len(open_server.told.asked) == before


@pytest.mark.parametrize("headers", [FOREIGN[0], FOREIGN[4]], ids=str)
def test_it_is_refused_before_a_token_is_looked_at(server: Served, headers: dict[str, str]) -> None:
    before = len(server.told.asked)
    for token in ("t-all", "t-peer", "unknown"):
        assert set(_statuses(server, {**headers, **bearer(token)}).values()) == {403}
    assert len(server.told.asked) == before


def test_another_name_of_the_host_is_refused_on_every_path(open_server: Served) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example:80", "[", "10.0.0.1"):
        assert set(_statuses(open_server, {"host": host}).values()) == {403}, host


def test_one_of_two_hosts_is_no_way_around(open_server: Served) -> None:
    for hosts in ("host: localhost\r\nhost: evil.example", "host: evil.example\r\nhost: localhost"):
        with socket.create_connection(("127.0.0.1", open_server.port)) as raw:
            raw.sendall(f"GET /info HTTP/1.1\r\n{hosts}\r\nconnection: close\r\n\r\n".encode())
            assert raw.recv(4096).startswith(b"HTTP/1.1 403")


def test_own_pages_and_other_clients_are_answered(open_server: Served) -> None:
    own = f"http://127.0.0.1:{open_server.port}"
    for headers in (
        {},
        {"host": "localhost"},
        {"host": "[::1]:80"},
        {"origin": own},
        {"origin": own.upper().replace("HTTP", "http")},
        {"origin": own, "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none", "sec-fetch-mode": "navigate"},
        {"sec-fetch-mode": "cors"},  # Node's fetch
        {"origin": "http://localhost", "host": "localhost:80"},
    ):
        assert plain.get(open_server.url + ASK, headers=headers).status_code == 200, headers
        answer = plain.post(
            f"{open_server.url}/v1/query", json={"sql": "SELECT ONE"}, headers=headers
        )
        assert answer.status_code == 200, headers
    with httpx.Client(http1=False, http2=True, trust_env=False) as http:
        assert http.get(open_server.url + ASK).status_code == 200
        assert http.get(open_server.url + ASK, headers=FOREIGN[0]).status_code == 403
        assert http.get(open_server.url + ASK, headers={"host": "evil"}).status_code == 403


def test_behind_a_proxy_the_own_page_is_that_of_the_proxy(server: Served) -> None:
    through = {"host": "queries.example", "origin": "https://queries.example", **bearer("t-all")}
    assert plain.get(server.url + ASK, headers=through).status_code == 200
    named = {**through, "host": "queries.example:443"}
    assert plain.get(server.url + ASK, headers=named).status_code == 200
    assert plain.get(server.url + ASK, headers={**through, "host": "other"}).status_code == 403


def test_a_link_may_lead_to_the_page_and_to_nothing_else(open_server: Served) -> None:
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate",
            "sec-fetch-dest": "document"}  # fmt: skip
    assert plain.get(f"{open_server.url}/console/", headers=link).status_code == 200
    assert plain.get(open_server.url, headers=link).status_code == 307
    for path in (ASK, "/v1/tables", "/console/api/overview", "/console/static/app.js"):
        assert plain.get(open_server.url + path, headers=link).status_code == 403, path
    framed = {**link, "sec-fetch-dest": "iframe"}
    assert plain.get(f"{open_server.url}/console/", headers=framed).status_code == 403
    assert plain.post(f"{open_server.url}/console/", headers=link).status_code == 403


_ATTACK = """<!doctype html><img src="TARGET/v1/query?sql=SELECT%20ONE">
<script src="TARGET/v1/query?sql=SELECT%20ONE"></script>
<iframe src="TARGET/v1/query?sql=SELECT%20ONE"></iframe>
<iframe name=frame></iframe>
<form id=form method=post enctype="text/plain" action="TARGET/v1/query" target=frame>
<input name='{"sql":"SELECT ONE","x":"' value='"}'></form>
<script>
const body = '{"sql":"SELECT ONE"}', mode = 'no-cors';
form.submit();
new EventSource('TARGET/v1/query?sql=SELECT%20ONE');
navigator.sendBeacon('TARGET/v1/query', body);
Promise.allSettled([
  fetch('TARGET/v1/query?sql=SELECT%20ONE', {mode}), fetch('TARGET/v1/query?sql=SELECT%20ONE'),
  fetch('TARGET/v1/query', {method: 'POST', body, mode}),
  fetch('TARGET/v1/query', {method: 'POST', body, mode, credentials: 'include'}),
]).then(() => { document.title = 'done'; });
</script>"""


@pytest.mark.skipif(find_chromium() is None, reason="no Chromium on the PATH")
def test_a_page_in_a_real_browser_gets_nothing_executed(
    open_server: Served, tmp_path: Path
) -> None:
    attack = _ATTACK.replace("TARGET", open_server.url).encode()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(attack)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    site = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=site.serve_forever).start()
    before = len(open_server.told.asked)
    chromium = Chromium(str(find_chromium()), tmp_path)
    try:
        for host in ("127.0.0.1", "localhost"):  # the same site on another port, and another site
            with chromium.page() as page:
                page.open(f"http://{host}:{site.server_port}/")
                page.wait("document.title == 'done'")
    finally:
        chromium.stop()
        site.shutdown()
        site.server_close()
    assert len(open_server.told.asked) == before


# -- /internal/ ----------------------------------------------------------------------------------


class _Alone(World):
    """One server that has no peers."""

    def members(self) -> tuple[Member, ...]:
        return tuple(super().members())[:1]


def test_internal_paths_are_there_for_peers_with_their_token_only(server: Served) -> None:
    nothing = plain.get(f"{server.url}/internal/nothing", headers=bearer("t-all"))
    for path in ("/internal/health", "/internal/get", "/internal/", "/internal/nothing"):
        for headers in ({}, bearer("t-all"), bearer("unknown"), {"cookie": "x=y"}):
            found = plain.get(server.url + path, headers=headers)
            assert found.status_code == 404
            assert found.text == nothing.text.replace("/internal/nothing", path)
    for token in ("t-peer", "t-peer-client"):
        found = plain.get(f"{server.url}/internal/health", headers=bearer(token))
        assert found.status_code == 500  # it is asked, but the tests' world has nobody there


def test_an_open_server_has_no_internal_paths(open_server: Served) -> None:
    for headers in ({}, bearer("t-peer")):
        found = plain.get(f"{open_server.url}/internal/health", headers=headers)
        assert found.status_code == 404


def test_without_peers_there_are_no_internal_paths(tmp_path: Path) -> None:
    with served(tmp_path, world=_Alone(), peer_token="t-peer") as alone:
        found = plain.get(f"{alone.url}/internal/health", headers=bearer("t-peer"))
        assert found.status_code == 404


def test_servers_of_one_folder_share_a_token_that_nobody_else_may_read(tmp_path: Path) -> None:
    folder, found = tmp_path / "serve", list[str]()
    begin = threading.Barrier(8)

    def ask() -> None:
        begin.wait()
        found.append(token_of_folder(folder))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert len(found[0]) > 40
    assert [p.name for p in folder.iterdir()] == ["peer-token"]
    assert (folder / "peer-token").stat().st_mode & 0o777 == 0o600


def test_several_servers_that_others_reach_must_be_given_their_token(tmp_path: Path) -> None:
    script = tmp_path / "job.sql"
    script.write_text("CREATE TABLE t (k INT PRIMARY KEY) WITH (KAFKA_TOPIC='t', "
                      "VALUE_FORMAT='JSON', PARTITIONS=1);")  # fmt: skip
    empty = tmp_path / "empty"
    empty.write_text("\n")
    asked = [str(script), "--home", str(tmp_path), "--servers", "2", "--listen", "0.0.0.0:1",
             "--peers", "http://a:1,http://b:1", "--insecure"]  # fmt: skip
    for more, words in (
        ([], "--peer-token-file"),
        (["--peer-token-file", str(empty)], "is empty"),
    ):
        found = CliRunner().invoke(command, [*asked, *more])
        assert words in str(found.exception)
    assert not (tmp_path / "serve" / "peer-token").exists()


# -- queries of other clients --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "name", "said"),
    [("/close-query", "queryId", "{}"), ("/ksql", "ksql", "TERMINATE {};")],
)
def test_only_who_asked_a_query_may_close_it(
    server: Served, path: str, name: str, said: str
) -> None:
    def close(query_id: str, token: str) -> tuple[int, str]:
        body = {name: said.format(query_id)}
        found = plain.post(server.url + path, json=body, headers=bearer(token))
        return found.status_code, found.text.replace(query_id, "ID").replace(query_id.upper(), "ID")

    asked = {"sql": "SELECT LIVE"}
    with plain.stream(
        "POST", f"{server.url}/query-stream", json=asked, headers=bearer("t-all")
    ) as live:
        lines = live.iter_lines()
        query_id = json.loads(next(lines))["queryId"]
        _until(lambda: server.told.open == 1)
        unknown = "push_" + "0" * 32
        for token in ("t-city", "t-peer-client"):
            assert close(query_id, token) == close(unknown, token)
            assert close(query_id, token)[0] == 400
        assert close(query_id, "unknown")[0] == 401
        assert server.told.open == 1
        assert close(query_id, "t-all")[0] == 200
        assert list(lines) == []
    _until(lambda: server.told.open == 0)


def test_ids_of_queries_tell_nothing_of_each_other(open_server: Served) -> None:
    asked = [
        plain.post(f"{open_server.url}/v1/query", json={"sql": "SELECT ONE"}).json()["query_id"]
        for _ in range(20)
    ]
    assert all(re.fullmatch(r"pull_[0-9a-f]{32}", one) for one in asked)
    heads, tails = {one[5:13] for one in asked}, {one[-8:] for one in asked}
    assert len(heads) == len(tails) == 20


# -- what may be known ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE X1 AS SELECT * FROM XPLACED EMIT CHANGES;",
        "CREATE STREAM XS AS SELECT * FROM XS;",
        "CREATE TABLE X1 WITH (KAFKA_TOPIC='PLACED') AS SELECT * FROM CUSTOMERS EMIT CHANGES;",
        "CREATE TABLE X1 AS SELECT NOTHING FROM CUSTOMERS EMIT CHANGES;",
        "CREATE TABLE X1 AS SELECT CITY, COUNT(*) FROM PER_CITY GROUP BY CITY EMIT CHANGES;",
        "CREATE TABLE X1 AS SELECT * FROM CUSTOMERS C JOIN XCUSTOMER X ON C.CITY=X.CITY;",
        "CREATE TABLE PER_CITY AS SELECT * FROM CUSTOMERS EMIT CHANGES;",
        "CREATE STREAM XS (A INT) WITH (KAFKA_TOPIC='mine', VALUE_FORMAT='JSON', PARTITIONS=9);",
        "INSERT INTO XPLACED SELECT * FROM CUSTOMERS EMIT CHANGES;",
        "SELECT * FROM XPLACED;",
        "CTAS_PER_CUSTOME;",
    ],
)
def test_what_is_explained_names_no_table_that_the_client_may_not_read(
    server: Served, text: str
) -> None:
    found = plain.post(
        f"{server.url}/ksql", json={"ksql": f"EXPLAIN {text}"}, headers=bearer("t-city")
    )
    assert found.status_code in (200, 400)
    body = found.json()
    told = json.dumps([{**one, "statementText": ""} for one in body]
                      if isinstance(body, list) else {**body, "statementText": ""})  # fmt: skip
    for word in re.findall(r"\w+", text):
        told = re.sub(rf"\b{word}\b", "", told)  # what was asked may come back
    for hidden in (
        "ORDERS,",
        "PLACED",
        "PER_CUSTOMER",
        "PER_PRODUCT",
        "LARGE_ORDERS",
        "shop_orders",
    ):
        assert hidden not in told


def test_who_may_read_all_is_helped_with_every_name(server: Served) -> None:
    asked = "EXPLAIN CREATE TABLE X1 AS SELECT * FROM XPLACED EMIT CHANGES;"
    found = plain.post(f"{server.url}/ksql", json={"ksql": asked}, headers=bearer("t-all"))
    assert "line 1, column 42" in found.json()["message"]
    assert "did you mean PLACED?" in found.json()["message"]


# -- what strangers may cost ---------------------------------------------------------------------


def test_strangers_fill_no_audit_log(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"

    async def flood() -> None:
        audit = Audit(log)
        for number in range(5_000):
            audit.refused(time.monotonic(), f"/{number}" + "x" * 5_000, "10.0.0.1", "no token")
        audit.note(time.monotonic(), who="a client")
        audit.close()

    asyncio.run(flood())
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    strangers = [line for line in lines if line["who"] == ""]
    assert 100 <= len(strangers) < 150  # so many at once, and one a second
    assert sum(line.get("left_out", 0) for line in strangers) + len(strangers) in (5_000, 5_001)
    assert all(len(line.get("path", "")) <= 200 for line in strangers)
    assert [line for line in lines if line["who"] == "a client"]


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize("path", ["/v1/tables", "/v1/ws", "/nothing"])
def test_who_leaves_before_the_answer_writes_no_traceback_into_the_log(
    tmp_path: Path, kind: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def receive() -> MutableMapping[str, Any]:
        return {"type": f"{kind}.connect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        raise RuntimeError("ASGI flow error: Connection already upgraded")

    async def ask() -> None:
        world = World()
        context = Context(
            world.serving(tmp_path), world, Access(), Rates(0, 1), Audit(), Meter(), Limits(),
            Running(1),
        )  # fmt: skip
        scope: dict[str, Any] = {"type": kind, "method": "GET", "path": path, "headers": []}
        await HttpApp(context)(scope, receive, send)

    asyncio.run(ask())
    assert caplog.records == []


@pytest.mark.parametrize(
    "path", ["jobs", "jobs/x/log", "topics", "topics/shop_orders", "topics/shop_orders/messages"]
)
def test_logs_and_topics_are_for_tokens_that_read_every_table(server: Served, path: str) -> None:
    url = f"{server.url}/console/api/{path}"
    assert httpx.get(url, trust_env=False).status_code == 401
    refused = httpx.get(url, headers=bearer("t-city"), trust_env=False)
    assert refused.status_code == 403
    assert "may not read all of them" in refused.json()["message"]


@pytest.mark.parametrize("topic", ["__consumer_offsets", "other_orders", "..", "shop_orders/x"])
def test_no_topic_is_read_that_no_statement_names(server: Served, topic: str) -> None:
    for more in ("", "/messages"):
        url = f"{server.url}/console/api/topics/{topic}{more}"
        answer = httpx.get(url, headers=bearer("t-all"), trust_env=False)
        assert answer.status_code in (400, 404), topic


def test_a_live_page_of_the_console_is_an_open_query(tmp_path: Path) -> None:
    ask, changes = {"sql": "SELECT LIVE"}, "/console/api/tables/PER_CITY/changes"
    with _world_server(tmp_path, limits=Limits(open_queries=1)) as server:

        def statuses() -> list[int]:
            with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http:
                with http.stream("GET", changes) as page:
                    found = [page.status_code]
                with http.stream("POST", "/v1/query", json=ask) as live:
                    return [*found, live.status_code]

        with plain.stream("GET", server.url + changes) as page:
            assert page.status_code == 200
            lines = page.iter_lines()  # without a name it would be closed
            assert "columns" in next(lines)
            assert statuses() == [429, 429]
        _until(lambda: statuses()[0] == 200)
        with _live(server, ask) as live:
            assert live.status_code == 200
            assert statuses() == [429, 429]


@contextmanager
def _live(server: Served, ask: dict[str, str]) -> Iterator[httpx.Response]:
    """A push query, once the server has a place for it."""
    while True:
        with plain.stream("POST", f"{server.url}/v1/query", json=ask) as live:
            if live.status_code == 200:
                yield live
                return


def test_the_whole_body_has_to_come_in_time() -> None:
    async def part() -> MutableMapping[str, Any]:
        await asyncio.sleep(0.001)  # each comes at once, they never end
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def ask() -> bytes:
        limits = Limits(request_s=0.05, request_bytes=1 << 30)
        scope: dict[str, Any] = {"type": "http", "headers": []}
        async with asyncio.timeout(60):
            return await Request(scope, part, _unused, limits).body()

    with pytest.raises(BadRequest) as refused:
        asyncio.run(ask())
    assert refused.value.status == 408


async def _unused(message: MutableMapping[str, Any]) -> None:
    raise AssertionError(message)

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.support.serve.http_world import NAME_COUNT, TYPED_JSON, Served, served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("http")) as found:
        yield found


@pytest.fixture(scope="module")
def http(server: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, trust_env=False) as client:
        yield client


def _asked(http: httpx.Client, path: str, sql: str, accept: str = "") -> httpx.Response:
    headers = {"accept": accept} if accept else {}
    name = "ksql" if path in ("/query", "/ksql") else "sql"
    return http.post(path, json={name: sql}, headers=headers)


_HEAD = {"columnNames": ["NAME", "COUNT"], "columnTypes": ["STRING", "BIGINT"]}


def test_query_stream_gives_lines_as_ksqldb_does(http: httpx.Client) -> None:
    for accept in ("", "*/*", "application/vnd.ksqlapi.delimited.v1"):
        found = _asked(http, "/query-stream", "SELECT ONE;", accept)
        assert found.headers["content-type"] == "application/vnd.ksqlapi.delimited.v1"
        head, row = map(json.loads, found.text.splitlines())
        assert head == {"queryId": head["queryId"], **_HEAD}
        assert head["queryId"]
        assert row == ["ann", 3]


def test_query_stream_gives_an_array_to_who_wants_json(http: httpx.Client) -> None:
    for sql, rows in (
        ("SELECT ONE", [["ann", 3]]),
        ("SELECT NONE", []),
        ("SELECT MANY 2500", [[f"k{i}", i] for i in range(2500)]),
    ):
        found = _asked(http, "/query-stream", sql, "application/json, text/plain, */*")
        assert found.headers["content-type"] == "application/json"
        assert found.json()[0].keys() == {"queryId", "columnNames", "columnTypes"}
        assert found.json()[1:] == rows


def test_the_old_query_path_gives_a_header_and_rows(http: httpx.Client) -> None:
    found = _asked(http, "/query", "SELECT ONE;")
    assert found.headers["content-type"] == "application/vnd.ksql.v1+json"
    header, row = found.json()
    assert header["header"]["schema"] == "`NAME` STRING, `COUNT` BIGINT"
    assert row == {"row": {"columns": ["ann", 3]}}


def test_our_json_has_columns_rows_and_where_they_stood(http: httpx.Client) -> None:
    found = _asked(http, "/v1/query", "SELECT MANY 2").json()
    assert found.pop("query_id")
    assert found == {
        "columns": [{"name": c.name, "type": str(c.type)} for c in NAME_COUNT],
        "rows": [["k0", 0], ["k1", 1]],
        "partitions": {
            "0": {"position": 17, "lag": 3, "restoring": False, "server": "0", "checked_ms": 0}
        },
    }


def test_ndjson_is_a_line_per_row(http: httpx.Client) -> None:
    found = _asked(http, "/v1/query", "SELECT MANY 1001", "application/x-ndjson")
    head, *rows, end = map(json.loads, found.text.splitlines())
    assert [c["name"] for c in head["columns"]] == ["NAME", "COUNT"]
    assert rows == [[f"k{i}", i] for i in range(1001)]
    assert end["end"]
    assert end["partitions"]["0"]["lag"] == 3


@pytest.mark.parametrize("sql", ["SELECT MANY 2500", "SELECT ONE", "SELECT NONE", "SELECT TYPES"])
def test_arrow_streams_hold_the_same_rows(http: httpx.Client, sql: str) -> None:
    arrow = _asked(http, "/v1/query", sql, "application/vnd.apache.arrow.stream")
    reader = pa.ipc.open_stream(arrow.content)
    batches = list(reader.iter_batches_with_custom_metadata())
    assert json.loads(batches[-1][1][b"holdfast"])["partitions"]["0"]["position"] == 17
    rows = pa.Table.from_batches([b.batch for b in batches], reader.schema).num_rows
    assert rows == len(_asked(http, "/v1/query", sql).json()["rows"])


@pytest.mark.parametrize("sql", ["SELECT TYPES", "SELECT TYPES in a batch"])
def test_every_type_is_written_as_ksqldb_writes_it(http: httpx.Client, sql: str) -> None:
    found = _asked(http, "/v1/query", sql)
    assert found.json()["rows"] == [TYPED_JSON]
    assert '"NaN",12.30,"AP8="' in found.text  # a DECIMAL keeps its last zero


@pytest.mark.parametrize(
    ("sql", "status", "code", "reaction"),
    [
        ("nonsense", 400, 40001, "InvalidStatement"),
        ("SELECT FAIL", 503, 50300, "StoreBehind"),
        ("SELECT CRASH", 500, 50000, None),
    ],
)
@pytest.mark.parametrize("path", ["/query", "/query-stream", "/v1/query"])
def test_errors_have_ksqldbs_shape(
    http: httpx.Client, path: str, sql: str, status: int, code: int, reaction: str | None
) -> None:
    found = _asked(http, path, sql)
    body: dict[str, Any] = found.json()
    assert (found.status_code, body["error_code"]) == (status, code)
    assert body.get("reaction") == reaction
    assert "secret" not in found.text  # what nobody expected is in the log only
    if code == 40001:
        assert body["@type"] == "statement_error"
        assert (body["statementText"], body["entities"]) == (sql, [])
    else:
        assert body["@type"] == "generic_error"


def test_an_error_behind_the_first_rows_ends_each_form_as_it_must(http: httpx.Client) -> None:
    ours = _asked(http, "/v1/query", "SELECT BREAK").json()
    assert ours["rows"] == [["ann", 1]]
    assert ours["error"]["reaction"] == "StoreBehind"
    lines = _asked(http, "/query-stream", "SELECT BREAK").text.splitlines()
    assert json.loads(lines[-1])["message"] == "the holder went away."
    assert _asked(http, "/query", "SELECT BREAK").json()[-1]["errorMessage"]["error_code"] == 50300
    array = _asked(http, "/query-stream", "SELECT BREAK", "application/json").json()
    assert array[-1]["@type"] == "generic_error"
    arrow = _asked(http, "/v1/query", "SELECT BREAK", "application/vnd.apache.arrow.stream")
    batches = list(pa.ipc.open_stream(arrow.content).iter_batches_with_custom_metadata())
    assert json.loads(batches[-1][1][b"holdfast"])["error"]["reaction"] == "StoreBehind"


def test_what_a_request_asks_for_reaches_the_query(server: Served, http: httpx.Client) -> None:
    body = {
        "sql": "SELECT ONE WHERE NAME = '${who}'",
        "properties": {"auto.offset.reset": "earliest"},
        "sessionVariables": {"WHO": "o'hara"},
        "positions": {"0": 17, "3": {"position": 4, "lag": 0}},
        "wait_ms": 1500,
        "timeout_ms": 2000,
        "resume": "t1",
    }
    assert http.post("/v1/query", json=body).status_code == 200
    ask = server.told.asked[-1]
    assert ask.sql == "SELECT ONE WHERE NAME = 'o''hara'"
    assert ask.properties == {"auto.offset.reset": "earliest"}
    assert ask.positions == {0: 17, 3: 4}
    assert (ask.wait_s, ask.timeout_s, ask.token) == (1.5, 2.0, "t1")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"sql":1}',
        b'{"sql":" "}',
        b'{"sql":"SELECT ONE","positions":[1]}',
        b'{"sql":"SELECT ONE","positions":{"0":-1}}',
        b'{"sql":"SELECT ONE","wait_ms":"soon"}',
        b'{"sql":"SELECT ONE","timeout_ms":-1}',
        b'{"sql":"SELECT ONE","resume":7}',
        b'{"sql":"SELECT ONE","properties":"p"}',
        b'{"sql":"SELECT ONE ${x}","sessionVariables":{"y":"1"}}',
        b'{"sql":"\xff"}',
        b'{"sql":' + b"[" * 5000,
    ],
)
def test_requests_that_are_not_as_they_must_be_are_refused(http: httpx.Client, body: bytes) -> None:
    found = http.post("/v1/query", content=body)
    assert found.status_code == 400
    assert found.json()["error_code"] in (40000, 40001)


def test_the_servers_own_paths(server: Served, http: httpx.Client) -> None:
    info = http.get("/info").json()["KsqlServerInfo"]
    assert (info["ksqlServiceId"], info["serverStatus"]) == ("shop", "RUNNING")
    assert http.get("/healthcheck").json()["isHealthy"] is True
    hosts = http.get("/clusterStatus").json()["clusterStatus"]
    assert {h: s["hostAlive"] for h, s in hosts.items()} == {
        "127.0.0.1:8088": True,
        "127.0.0.1:8089": True,
    }
    assert http.get("/status").json() == {"commandStatuses": {}}
    assert http.get("/v1/metadata").json()["clusterId"]["scope"]["clusters"]
    assert http.get("/is_valid_property/auto.offset.reset").json() is True


def test_health_is_not_well_while_kafka_is_silent_but_rows_are_served(
    server: Served, http: httpx.Client
) -> None:
    server.world.checked_ms = seen_ms = int(time.time() * 1000) - 60_000
    found = http.get("/healthcheck")
    told = found.json()
    assert (found.status_code, told["isHealthy"], told["serverState"]) == (200, False, "READY")
    assert told["details"]["kafka"] == {"isHealthy": False, "lastSeenMs": seen_ms}


def test_tables_and_their_positions(server: Served, http: httpx.Client) -> None:
    server.world.put("PER_CUSTOMER", ["ann"], [1, 5])
    tables = http.get("/v1/tables").json()
    names = [t["name"] for t in tables["tables"]]
    assert names == ["PER_CITY", "PER_CUSTOMER", "PER_PRODUCT_MINUTE"]
    assert {u["name"] for u in tables["unserved"]} >= {"ORDERS", "PLACED"}
    about = http.get("/v1/tables/per_customer").json()
    assert about == tables["tables"][1]
    assert [c["name"] for c in about["columns"]] == ["CUSTOMER", "ORDERS", "TOTAL"]
    positions = http.get("/v1/tables/PER_CUSTOMER/positions").json()["partitions"]
    assert sum(p["position"] for p in positions.values()) == 2
    assert http.get("/v1/tables/NONE").status_code == 404


def test_paths_and_methods_that_are_not(http: httpx.Client) -> None:
    assert http.get("/nothing").status_code == 404
    assert http.get("/query-stream").status_code == 405
    assert "POST" in http.get("/query-stream").json()["message"]
    assert http.post("/status/stream/X/create").status_code == 404
    assert "Kafka producer" in http.post("/inserts-stream", content=b"{}").json()["message"]


def test_heads_and_last_slashes(http: httpx.Client) -> None:
    found = http.head("/healthcheck")
    assert (found.status_code, found.content) == (200, b"")
    assert http.get("/info/").json() == http.get("/info").json()
    assert http.get("//").status_code == 200


def test_every_path_of_the_openapi_document_is_there(http: httpx.Client) -> None:
    document = http.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    for path, operations in document["paths"].items():
        for method in operations:
            asked = path.replace("{name}", "PER_CITY")
            body = {"sql": "SELECT ONE", "ksql": "SHOW TABLES;"} if method == "post" else None
            found = http.request(method.upper(), asked, params={"sql": "SELECT ONE"}, json=body)
            assert found.status_code == (400 if path in ("/close-query", "/query") else 200), asked
    text = json.dumps(document)
    wanted = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert wanted <= set(document["components"]["schemas"])


def test_a_plain_query_is_as_long_as_it_says(http: httpx.Client) -> None:
    found = _asked(http, "/v1/query", "SELECT ONE")
    assert int(found.headers["content-length"]) == len(found.content)
    assert found.headers["cache-control"] == "no-store"


def test_the_home_of_the_server_is_not_told(http: httpx.Client, tmp_path: Path) -> None:
    assert str(tmp_path.parent) not in http.get("/info").text

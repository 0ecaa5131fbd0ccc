from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.errors import InvalidConfig
from holdfast.serve.http.guard.access import token_hash
from holdfast.serve.http.request import Limits
from holdfast.serve.http.server import Listen
from tests.support.serve import plain_http as plain
from tests.support.serve.http_world import Served, served
from tests.support.serve.tokens import bearer, tokens_file
from tests.support.servers.certificates import Authority

ASK = {"sql": "SELECT ONE WHERE NAME = 'private' AND COUNT > 17"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("http")
    tokens = tokens_file(home, all=["*"], cities=["PER_CITY"], none=[])
    with served(
        home, tokens=tokens, peer_token="t-peer", audit=home / "audit.log", audit_literals=False
    ) as found:
        yield found


def _ask(
    server: Served, headers: dict[str, str], path: str = "/v1/query", more: str = ""
) -> httpx.Response:
    return plain.post(server.url + path, json={"sql": ASK["sql"] + more}, headers=headers)


def test_a_token_is_asked_for_on_every_path_but_the_public_ones(server: Served) -> None:
    for path in ("/v1/query", "/query-stream", "/query", "/ksql", "/close-query"):
        found = plain.post(server.url + path, json={"sql": "x", "ksql": "x", "queryId": "x"})
        assert (path, found.status_code, found.json()["error_code"]) == (path, 401, 40100)
        assert found.headers["www-authenticate"].startswith("Bearer")
    for path in ("/info", "/clusterStatus", "/v1/tables", "/v1/servers", "/nothing", "/metrics"):
        assert plain.get(server.url + path).status_code == 401, path
    for path in ("/healthcheck", "/openapi.json"):
        assert plain.get(server.url + path).status_code == 200


def test_tokens_come_as_bearer_basic_or_cookie(server: Served) -> None:
    assert _ask(server, bearer("t-all")).status_code == 200
    basic = base64.b64encode(b"any-key:t-all").decode()
    assert _ask(server, {"authorization": f"Basic {basic}"}).status_code == 200
    signed_in = plain.post(f"{server.url}/v1/session", headers=bearer("t-all"))
    cookie = signed_in.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert _ask(server, {"cookie": cookie.split(";")[0]}).status_code == 200
    for wrong in ("Bearer x", "Basic !!!", "Basic eA==", "Digest t-all", "t-all", "Bearer  ?"):
        refused = _ask(server, {"authorization": wrong})
        assert refused.status_code == 401
        assert "--token-file" in refused.json()["message"]


def test_who_may_not_read_a_table_is_told_nothing_of_it(server: Served) -> None:
    assert _ask(server, bearer("t-none")).status_code == 403
    assert _ask(server, bearer("t-cities")).json()["error_code"] == 40300
    with httpx.Client(base_url=server.url, headers=bearer("t-cities")) as http:
        assert [t["name"] for t in http.get("/v1/tables").json()["tables"]] == ["PER_CITY"]
        assert http.get("/v1/tables/PER_CITY").status_code == 200
        assert http.get("/v1/tables/PER_CUSTOMER/positions").status_code == 403
        shown = http.post("/ksql", json={"ksql": "SHOW TABLES; SHOW QUERIES; SHOW STREAMS;"}).json()
        assert [t["name"] for t in shown[0]["tables"]] == ["PER_CITY"]
        assert shown[2]["streams"] == []
        for text in ("DESCRIBE PER_CUSTOMER;", "DESCRIBE NOTHING;", "EXPLAIN SELECT * FROM PLACED;",
                     "EXPLAIN CREATE TABLE PER_CITY AS SELECT city FROM PLACED;"):  # fmt: skip
            assert http.post("/ksql", json={"ksql": text}).status_code == 403
        # Statements name what they read: those of other tables are not told, and not known either.
        told = [_said(http, "SHOW QUERIES;"), _said(http, "EXPLAIN ctas_per_customer;")]
        told += [_said(http, "DESCRIBE PER_CITY EXTENDED;"), _said(http, "EXPLAIN SHOW TABLES;")]
        told += [
            _said(http, "SHOW TABLES EXTENDED;"),
            _said(http, "EXPLAIN SELECT * FROM PER_CITY;"),
        ]
        told += [_said(http, "SHOW TOPICS;"), _said(http, "DESCRIBE STREAMS;")]
        told += [http.get(path).text.upper() for path in ("/v1/tables", "/v1/tables/PER_CITY")]
        for hidden in ("PLACED", "FROM ORDERS", "SHOP_", "PER_PRODUCT", "CSAS_"):
            assert not [text for text in told if hidden in text], hidden
        stores = [
            s["hostStoreLags"] for s in http.get("/clusterStatus").json()["clusterStatus"].values()
        ]
        assert {name for store in stores for name in store["stateStoreLags"]} == {"PER_CITY"}


def _said(http: httpx.Client, text: str) -> str:
    """The answer without the statement text that it repeats."""
    body = http.post("/ksql", json={"ksql": text}).json()
    entities = body if isinstance(body, list) else [body]
    return json.dumps([{**one, "statementText": ""} for one in entities]).upper()


def test_the_token_of_peers_is_no_clients(server: Served) -> None:
    assert _ask(server, bearer("t-peer")).status_code == 401


def _line(log: Path, **wanted: Any) -> dict[str, Any]:
    """The line of the audit log that has these values, once it is there."""
    deadline = time.monotonic() + 60
    while True:
        text = log.read_text() if log.exists() else ""
        for line in text.splitlines(keepends=True):
            found: dict[str, Any] = json.loads(line) if line.endswith("\n") else {}
            if wanted.items() <= found.items():
                return found
        assert time.monotonic() < deadline, f"no line with {wanted} in\n{text}"
        time.sleep(0.01)


def test_the_audit_log_tells_who_asked_what_but_no_secret(
    server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    # Words and a path of its own: other tests ask this server, too, and lines come late.
    _ask(server, bearer("t-all"), more=" AND AUDITED")
    _ask(server, bearer("guessed"), "/query")
    _ask(server, bearer("t-none"), more=" AND AUDITED")
    path, statement = Path(str(server.listen.audit)), "SELECT ONE WHERE NAME = ? AND COUNT > ?"
    mine = _line(path, who="all", statement=f"{statement} AND AUDITED", ended="done")
    assert (mine["rows"], mine["tables"]) == (1, ["PER_CUSTOMER"])
    assert mine["ms"] > 0
    assert mine["from"] == "127.0.0.1"
    other = _line(path, who="none", statement=f"{statement} AND AUDITED")
    assert other["error"] == "NotAllowed"
    _line(path, who="", path="/query", error="the request's token is not known here.")
    text = path.read_text()
    for secret in ("guessed", "t-all", "t-none", "private", token_hash("t-all")):
        assert secret not in text
        assert secret not in caplog.text


def test_too_many_requests_and_too_large_ones(tmp_path: Path) -> None:
    limits = Limits(rate_per_s=0.001, burst=3, request_bytes=200)
    with served(tmp_path, limits=limits) as server:
        large = plain.post(f"{server.url}/v1/query", content=b"x" * 201)
        assert (large.status_code, large.json()["error_code"]) == (413, 41300)
        streamed = plain.post(f"{server.url}/v1/query", content=iter([b"x" * 150] * 2))
        assert streamed.status_code == 413
        assert _ask(server, {}).status_code == 200
        found = _ask(server, {})
        assert (found.status_code, found.json()["reaction"]) == (429, "Overloaded")
        assert found.headers["retry-after"] == "1"


def test_what_would_be_open_by_mistake_is_refused(tmp_path: Path) -> None:
    everywhere = Listen(host="0.0.0.0")
    with pytest.raises(InvalidConfig, match="nothing restricts access"):
        everywhere.check()
    replace(everywhere, insecure=True).check()
    replace(everywhere, tokens=tmp_path / "t").check()
    for local in ("127.0.0.1", "::1", "localhost"):
        Listen(host=local).check()
    with pytest.raises(InvalidConfig, match="TLS needs"):
        Listen(cert=tmp_path).check()
    with pytest.raises(InvalidConfig, match="there is no file"):
        Listen(cert=tmp_path / "c", key=tmp_path / "k").check()
    with (
        pytest.raises(InvalidConfig, match="cannot be read"),
        served(tmp_path, tokens=tmp_path / "none"),
    ):
        pass


def test_a_port_that_is_taken_is_told_of(server: Served, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="cannot listen"), served(tmp_path, port=server.port):
        pass


def test_tls_and_client_certificates(tmp_path: Path) -> None:
    authority = Authority("holdfast tests", tmp_path)
    cert, key = authority.issue("localhost")
    mine = authority.issue("client")
    with served(tmp_path, host="127.0.0.1", cert=cert, key=key, client_ca=authority.path) as server:
        url = f"https://localhost:{server.port}/info"
        trusting = ssl.create_default_context(cafile=str(authority.path))
        with pytest.raises(httpx.TransportError):
            httpx.get(url, verify=trusting, trust_env=False)  # no certificate of one's own
        with pytest.raises(httpx.ConnectError):
            httpx.get(url, trust_env=False)  # nobody trusts this authority
        trusting.load_cert_chain(*mine)
        with httpx.Client(verify=trusting, trust_env=False, http2=True) as http:
            found = http.get(url)
        assert (found.status_code, found.http_version) == (200, "HTTP/2")

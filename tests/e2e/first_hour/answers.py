"""A statement's rows, asked in the four ways that a user has."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import httpx

from holdfast.client import Client
from tests.e2e.first_hour.counts import Counted, Rows
from tests.e2e.first_hour.transcript import Transcript

__all__ = ["by_client", "by_command", "by_console", "by_curl"]

_PAGE = 100


def by_command(transcript: Transcript, _: str, asked: Counted) -> Rows:
    """`holdfast query`, which finds the deployment's server."""
    file = f"{asked.name.lower()}.json"
    sql = f"SELECT * FROM {asked.name.lower()};"
    transcript.run(f'holdfast query "{sql}" --json >{file}; head -3 {file}')
    lines = transcript.read(file).splitlines()
    return _rows(asked, map(_parsed, lines))


def by_curl(transcript: Transcript, url: str, asked: Counted) -> Rows:
    """The request that serving.md shows."""
    file = f"{asked.name.lower()}.curl.json"
    body = {
        "sql": f"SELECT * FROM {asked.name.lower()};",
        "properties": {"ksql.query.pull.table.scan.enabled": True},
    }
    transcript.run(f"curl -s {url}/v1/query -d '{json.dumps(body)}' -o {file}")
    text = transcript.read(file)
    transcript.note(f"{text[:400]} …\n\n")
    found = _parsed(text)
    names = [column["name"] for column in found["columns"]]
    return _rows(asked, (dict(zip(names, row, strict=True)) for row in found["rows"]))


def by_client(transcript: Transcript, url: str, asked: Counted) -> Rows:
    """`holdfast.client`."""
    sql = f"SELECT * FROM {asked.name.lower()};"
    with Client([url]) as client:
        found = client.query(sql, properties={"ksql.query.pull.table.scan.enabled": True})
    transcript.note(f">>> client.query({sql!r}).rows\n{found.rows[:2]} …\n\n")
    return _rows(asked, found.rows)


def by_console(transcript: Transcript, url: str, asked: Counted) -> Rows:
    """The console's own JSON: rows of a table, messages of a stream's topic."""
    with httpx.Client(base_url=f"{url}/console/api/", trust_env=False, timeout=60) as http:

        def get(path: str) -> Any:
            answer = http.get(path)
            assert answer.status_code == 200, answer.text
            return _parsed(answer.text)

        pages = _messages if asked.stream else _table_rows
        found = _rows(asked, pages(get, asked.name))
    transcript.note(f"the console at {url}/console/ shows {found.total():,} of {asked.name}\n\n")
    return found


def _table_rows(get: Callable[[str], Any], table: str) -> Iterator[dict[str, Any]]:
    cursor = ""
    while True:
        page = get(f"tables/{table}/rows?limit={_PAGE}&cursor={cursor}")
        names = [column["name"] for column in page["columns"]]
        yield from (dict(zip(names, row, strict=True)) for row in page["rows"])
        cursor = page["next"]
        if not cursor:
            return


def _messages(get: Callable[[str], Any], topic: str) -> Iterator[dict[str, Any]]:
    key = {"UNIQUE_ORDERS": "ORDER_ID", "CUSTOMERS_ORDERS": "CUSTOMER_ID"}[topic]
    for partition in get(f"topics/{topic}")["partitions"]:
        before = partition["end"]
        while before > partition["start"]:
            number = partition["partition"]
            path = f"topics/{topic}/messages?partition={number}&before={before}&limit={_PAGE}"
            page = get(path)
            for message in page:
                yield {key: message["key"]["text"], **_parsed(message["value"]["text"])}
            before = min((message["offset"] for message in page), default=partition["start"])


def _parsed(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


def _rows(asked: Counted, rows: Iterable[Mapping[str, Any]]) -> Rows:
    return Counter(tuple(_plain(row[name]) for name in asked.columns) for row in rows)


def _plain(value: Any) -> Any:
    """Lists as tuples; a DOUBLE is equal to the decimal number that it is written as."""
    if isinstance(value, list):
        return tuple(map(_plain, value))
    return Decimal(repr(value)) if isinstance(value, float) else value

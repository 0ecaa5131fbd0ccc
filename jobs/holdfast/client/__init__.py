"""A client of query servers: pull queries as rows or Arrow, and push queries that auto-resume.

    from holdfast.client import Client

    with Client("http://localhost:8088", token=token) as client:
        for row in client.query("SELECT * FROM movie_tickets_sold WHERE title = 'Aliens';"):
            print(row["TICKETS_SOLD"])
        for change in client.changes("SELECT * FROM movie_tickets_sold EMIT CHANGES;"):
            print(change)

`AsyncClient` is the same with `await` and `async for`.  If several servers are given, a query goes
to the next one when a server does not answer.  Errors are those of `holdfast.errors`.
"""

from __future__ import annotations

from holdfast.client.aio import AsyncClient
from holdfast.client.client import Client
from holdfast.client.protocol import Changes
from holdfast.client.results import Partition, Result, Row

__all__ = ["AsyncClient", "Changes", "Client", "Partition", "Result", "Row"]

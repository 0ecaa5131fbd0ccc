"""The console's ASGI application, mounted by the query server for the paths under /console.

/console/                       the page            open to all: it holds no data
/console/static/…               its files           the same
/console/api/overview           server, peers, jobs, streams and tables
/console/api/topology           the graph of all queries
/console/api/relations/NAME     a statement, explained
/console/api/partitions         state partitions: executor, holders, positions
/console/api/activity?after=MS  series since then
/console/api/tables/NAME/rows?search=…&cursor=…&limit=…
/console/api/tables/NAME/changes                    server-sent events
/console/api/jobs                                   every job, and how it is deployed here
/console/api/jobs/NAME/log                          the end of its driver's log
/console/api/pods                                   pods of the server's own job on Kubernetes
/console/api/pods/NAME/log?previous=1               the end of a pod's log, or of that before it
/console/api/topics                                 topics of the statements
/console/api/topics/NAME                            offsets, settings, consumer groups
/console/api/topics/NAME/messages?partition=…&before=…&limit=…
/console/api/RUNS[/RUN[/report.html]]               RUNS: compaction or chaos

SQL goes to /v1/query, as from any other client.  Tables that a client may not read are left out;
runs, logs, pods and topics cover all tables of a home, and more than the declared columns, so only
clients that may read every table see them.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs

from holdfast.errors import BadRequest, NotAllowed, Refused
from holdfast.serve.console import facts, runs
from holdfast.serve.console.activity import Activity, sample_of
from holdfast.serve.console.drivers import Driver, Drivers
from holdfast.serve.console.events import send_events
from holdfast.serve.console.files import INDEX, PAGE_POLICY, REPORT_POLICY, static_files
from holdfast.serve.console.jobs import Beside, job_names, jobs_told, log_of
from holdfast.serve.console.live import live_changes
from holdfast.serve.console.pods import PodsAsked
from holdfast.serve.console.rows import page_of
from holdfast.serve.console.topics import JobTopic, Look, Topics, topic_named, topics_of
from holdfast.serve.contract import ServedTable, Serving
from holdfast.serve.http.app import AUDIT, CLIENT, RUNNING
from holdfast.serve.http.guard.access import ANYONE, Client, check_readable
from holdfast.serve.http.guard.audit import Audit
from holdfast.serve.http.pump import Ended, Running
from holdfast.serve.http.request import Limits, Receive, Request, Scope, Send
from holdfast.serve.visible import Visible, visible

__all__ = ["PREFIX", "Console"]

_LOG = logging.getLogger(__name__)

PREFIX = "/console"
_API = f"{PREFIX}/api/"
_SAMPLE_S = 2.0
_HTML = "text/html; charset=utf-8"


@dataclass(frozen=True)
class _Asked:
    """A request: its client, the variable parts of its path, its parameters."""

    request: Request
    names: tuple[str, ...]

    @property
    def client(self) -> Client:
        client: Client = self.request.scope.get(CLIENT, ANYONE)
        return client

    def sees(self, serving: Serving) -> Visible:
        """The statements that the client may see."""
        return visible(serving.catalog.topology(), self.client.may_read)

    def values(self, name: str) -> list[str]:
        """The values of a parameter."""
        text = self.request.scope.get("query_string", b"").decode(errors="replace")
        return parse_qs(text, keep_blank_values=True).get(name, [])

    def number(self, name: str, default: int) -> int:
        """A parameter that is a number.

        Raises:
            BadRequest: it is not a number.
        """
        text = (self.values(name) or [str(default)])[0]
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise BadRequest(f"{name}={text[:40]!r} is not a number.")
        return int(text)

    def optional(self, name: str) -> int | None:
        """A parameter that is a number, None without it.

        Raises:
            BadRequest: it is not a number.
        """
        return self.number(name, 0) if self.values(name) else None

    def opened(self) -> AbstractContextManager[asyncio.Future[Ended]]:
        """Register an open query; the future is done when the query has to end.

        Raises:
            Overloaded, Retriable: see `Running.opened`.
        """
        running: Running | None = self.request.scope.get(RUNNING)
        if running is None:
            running = Running(1)
        return running.opened(running.new_id("console"), self.client.name)

    def note(self, what: str, table: str, rows: int) -> None:
        """Write a line of the audit log, as for any other query."""
        audit: Audit | None = self.request.scope.get(AUDIT)
        if audit is not None:
            statement = f"console: {what} {table}"
            audit.note(
                self.request.started_s,
                who=self.client.name,
                statement=statement,
                tables=(table,),
                rows=rows,
                ended="done",
            )


class Console:
    """The console's application; as a context manager it samples jobs and servers.

    Args:
        serving: the server.
        beside: what is shown beside the server's tables; drivers in its home are found anyway.
        limits: of a client; only the time to send a part of an answer is used.
    """

    def __init__(
        self,
        serving: Serving,
        beside: Beside | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._serving = serving
        home = Path(serving.settings.home)
        beside = beside or Beside()
        self._homes = (home, *beside.runs_of)
        self._drivers = Drivers(home, beside.drivers)
        self._limits = limits or Limits()
        self._deployments = beside.deployments
        self._pods = PodsAsked(beside.pods)
        self._kafka = Topics(serving.settings.client())
        self._heard: list[Driver] = []  # of all jobs
        self._told: list[Driver] = []  # of the jobs that are served
        self._activity = Activity()
        self._sampling: asyncio.Task[None] | None = None
        self._routes: tuple[tuple[re.Pattern[str], _Handler], ...] = (
            (re.compile("overview"), self._overview),
            (re.compile("topology"), self._topology),
            (re.compile("relations/([^/]+)"), self._relation),
            (re.compile("partitions"), self._partitions),
            (re.compile("activity"), self._series),
            (re.compile("tables/([^/]+)/rows"), self._rows),
            (re.compile("tables/([^/]+)/changes"), self._changes),
            (re.compile("jobs"), self._jobs),
            (re.compile("jobs/([^/]+)/log"), self._log),
            (re.compile("pods"), self._pods_told),
            (re.compile("pods/([^/]+)/log"), self._pod_log),
            (re.compile("topics"), self._topics),
            (re.compile("topics/([^/]+)"), self._topic),
            (re.compile("topics/([^/]+)/messages"), self._messages),
            (re.compile("(compaction|chaos)"), self._runs),
            (re.compile("(compaction|chaos)/([^/]+)"), self._run),
            (re.compile(r"(compaction|chaos)/([^/]+)/report\.html"), self._report),
        )

    async def __aenter__(self) -> Self:
        self._sampling = asyncio.create_task(self._sample_forever(), name="console samples")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._sampling is not None:
            self._sampling.cancel()
            await asyncio.gather(self._sampling, return_exceptions=True)

    async def sample(self) -> None:
        """Take one sample of jobs and servers."""
        self._heard = await self._drivers.ask()
        self._told = facts.related(self._serving, self._heard)
        members = self._serving.cluster.members()
        self._activity.add(sample_of(int(time.time() * 1000), self._told, members))

    async def _sample_forever(self) -> None:
        while True:
            try:
                await self.sample()
            except Exception:  # noqa: BLE001 - one sample is missing, the next may succeed
                _LOG.warning("a sample for the console failed", exc_info=True)
            await asyncio.sleep(_SAMPLE_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one HTTP request.

        Raises:
            HoldfastError: the request is refused; nothing was sent.
        """
        request = Request(scope, receive, send, self._limits)
        if scope["method"] not in ("GET", "HEAD"):
            raise BadRequest(f"{PREFIX} takes GET, not {scope['method'][:20]}.", status=405)
        if not scope["path"].startswith(_API):
            await _file(request)
            return
        path = scope["path"].removeprefix(_API)
        for pattern, handler in self._routes:
            match = pattern.fullmatch(path)
            if match:
                await handler(_Asked(request, match.groups()))
                return
        raise _nothing_at(scope["path"])

    async def _overview(self, asked: _Asked) -> None:
        seen = asked.sees(self._serving)
        await asked.request.json(facts.overview(self._serving, self._told, seen))

    async def _topology(self, asked: _Asked) -> None:
        seen = asked.sees(self._serving)
        await asked.request.json(facts.graph(self._serving, self._told, seen))

    async def _relation(self, asked: _Asked) -> None:
        name, seen = asked.names[0], asked.sees(self._serving)
        if name not in seen.names:
            check_readable(name, asked.client)
        await asked.request.json(facts.relation(self._serving, self._told, name, seen))

    async def _partitions(self, asked: _Asked) -> None:
        table, seen = "".join(asked.values("table")[:1]), asked.sees(self._serving)
        await asked.request.json(facts.partitions(self._serving, self._told, seen, table))

    async def _series(self, asked: _Asked) -> None:
        seen = asked.sees(self._serving)
        known = seen.names | facts.known_queries(self._serving, seen)
        told = self._activity.since(asked.number("after", 0), known.__contains__)
        await asked.request.json(told)

    async def _rows(self, asked: _Asked) -> None:
        table = self._table(asked)
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                page = await page_of(
                    self._serving.reader,
                    table,
                    search=[text for text in asked.values("search") if text],
                    cursor="".join(asked.values("cursor")[:1]),
                    limit=asked.number("limit", 50),
                )
        except TimeoutError as error:
            told = (
                f"looking for rows of {table.name} took longer than {self._limits.timeout_s:g} s."
            )
            raise BadRequest(told, status=504, action="search for a whole key") from error
        asked.note("rows of", table.name, len(page.rows))
        await asked.request.json(page.as_json())

    async def _changes(self, asked: _Asked) -> None:
        table = self._table(asked)
        with asked.opened() as stop:
            asked.note("changes of", table.name, 0)
            await send_events(asked.request, live_changes(self._serving.reader, table), stop)

    def _table(self, asked: _Asked) -> ServedTable:
        name = asked.names[0]
        check_readable(name, asked.client)
        table = self._serving.catalog.tables().get(name)
        if table is None:
            told = self._serving.catalog.unserved().get(name)
            raise Refused(told.reason if told else f"There is no table {name[:100]}.")
        return table

    async def _jobs(self, asked: _Asked) -> None:
        _check_all(asked.client, "Jobs")
        deployed = await asyncio.to_thread(self._deployments.all)
        main = self._serving.settings.application_id
        await asked.request.json(jobs_told(self._heard, deployed, main, self._pods.release))

    async def _log(self, asked: _Asked) -> None:
        _check_all(asked.client, "Logs")
        told = await asyncio.to_thread(log_of, self._deployments, asked.names[0])
        asked.note("log of", asked.names[0], len(told["lines"]))
        await asked.request.json(told)

    async def _pods_told(self, asked: _Asked) -> None:
        _check_all(asked.client, "Pods")
        await asked.request.json(await self._pods.told())

    async def _pod_log(self, asked: _Asked) -> None:
        _check_all(asked.client, "Logs")
        name, previous = asked.names[0], asked.number("previous", 0) > 0
        told = await self._pods.log(name, previous=previous)
        asked.note("log of", name, len(told["lines"]))
        await asked.request.json(told)

    async def _topics(self, asked: _Asked) -> None:
        _check_all(asked.client, "Topics")
        await asked.request.json(await self._kafka.listed(self._topics_known()))

    async def _topic(self, asked: _Asked) -> None:
        await asked.request.json(await self._kafka.told(self._topic_asked(asked)))

    async def _messages(self, asked: _Asked) -> None:
        topic = self._topic_asked(asked)
        limit, partition = asked.number("limit", 50), asked.optional("partition")
        look = Look(limit, partition, asked.optional("before"))
        with asked.opened():
            found = await self._kafka.messages(topic, look)
        asked.note("messages of", topic.name, len(found))
        await asked.request.json(found)

    def _topic_asked(self, asked: _Asked) -> JobTopic:
        _check_all(asked.client, "Topics")
        return topic_named(self._topics_known(), asked.names[0])

    def _topics_known(self) -> dict[str, JobTopic]:
        serving = self._serving
        changelogs = facts.changelogs(serving, self._told)
        main, letters = serving.settings.application_id, serving.settings.ingest.dead_letter_topic
        jobs = job_names(self._told)
        return topics_of(serving.catalog.topology(), jobs, changelogs, main, letters)

    async def _runs(self, asked: _Asked) -> None:
        _check_all(asked.client, "Runs")
        read = {"compaction": runs.compaction_runs, "chaos": runs.chaos_runs}[asked.names[0]]
        await asked.request.json(await asyncio.to_thread(read, self._homes))

    async def _run(self, asked: _Asked) -> None:
        _check_all(asked.client, "Runs")
        kind, name = asked.names
        read = {"compaction": runs.compaction_run, "chaos": runs.chaos_run}[kind]
        await asked.request.json(await asyncio.to_thread(read, self._homes, name))

    async def _report(self, asked: _Asked) -> None:
        _check_all(asked.client, "Runs")
        kind, name = asked.names
        body = await asyncio.to_thread(runs.report_of, self._homes, kind, name)
        policy = {"content-security-policy": REPORT_POLICY}
        await asked.request.respond(body, kind=_HTML, headers=policy)


_Handler = Callable[[_Asked], Awaitable[None]]


def _check_all(client: Client, what: str) -> None:
    if not client.reads_all:
        raise NotAllowed(
            f"{what} cover every table, and {client.name} may not read all of them.",
            action="ask the administrator of the server's tokens for one that reads `*`",
        )


def _nothing_at(path: str) -> BadRequest:
    return BadRequest(f"there is nothing at {path[:200]}.", status=404)


async def _file(request: Request) -> None:
    path = request.scope["path"].removeprefix(PREFIX)
    if path == "":
        await request.respond(b"", status=308, headers={"location": f"{PREFIX}/"})
        return
    found = static_files().get(INDEX if path == "/" else path.removeprefix("/static/"))
    if found is None:
        raise _nothing_at(request.scope["path"])
    # The browser revalidates it each time; it is sent in full only when it has changed.
    headers = {
        "etag": f'"{found.tag}"',
        "cache-control": "no-cache",
        "referrer-policy": "no-referrer",
    }
    if path == "/":
        headers["content-security-policy"] = PAGE_POLICY
    if request.header(b"if-none-match") == headers["etag"]:
        await request.respond(b"", status=304, kind=found.kind, headers=headers)
    else:
        await request.respond(found.body, kind=found.kind, headers=headers)

"""A session: its script so far, the script's topology, and the execution of each statement.

No job runs in a session.  CREATE, INSERT INTO … SELECT, DROP, SET and the like are planned by the
real planner and, if correct, kept: together they form a file for `holdfast run`. PAUSE, RESUME and
TERMINATE go to jobs that run elsewhere, SELECT to a query server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console, RenderableType

from holdfast.cli.deployed.orders import give_orders, job_of, state_now
from holdfast.cli.deployed.steer import as_text
from holdfast.cli.shell.answers import Answers, Served
from holdfast.cli.shell.broker import Broker
from holdfast.cli.shell.show import Shown
from holdfast.errors import InvalidStatement
from holdfast.sql import compile_text, explain
from holdfast.sql.parse.script import Script
from holdfast.sql.parse.statements import (
    AssertSchema,
    AssertSource,
    AssertTombstone,
    AssertTopic,
    AssertValues,
    CreateAs,
    CreateSource,
    CreateType,
    Describe,
    DropSource,
    Explain,
    InsertSelect,
    InsertValues,
    Print,
    RunScript,
    SelectQuery,
    Show,
    Statement,
    Steer,
)
from holdfast.sql.parse.text import Definitions, Place, parse, statement_places
from holdfast.sql.plan.sources.changes import known_id
from holdfast.tasks.aggregates.base import AggregateFunction
from holdfast.types.statements.topology import Topology, statements

__all__ = ["Session"]

_PLACE = re.compile(r"line \d+, column \d+: ")
_OBEY_S = 30.0  # how long a job may take to obey; its current batch ends first
_SCRIPTS_DEEP = 20  # limit for scripts that run themselves


@dataclass
class _State:
    kept: list[str] = field(default_factory=list)
    topology: Topology = field(default_factory=lambda: Topology(()))
    definitions: Definitions = field(default_factory=Definitions)


class Session:
    """Executes statements; their output goes to a console."""

    def __init__(
        self,
        console: Console,
        broker: Broker,
        functions: Mapping[str, AggregateFunction],
        properties: Mapping[str, object],
        served: Served | None = None,
    ) -> None:
        """`served`: what SELECT is answered with; without it a session refuses SELECT."""
        self._console = console
        self._broker = broker
        self._functions = functions
        self._given = properties
        job = properties.get("application.id")
        self._job = None if job is None else str(job)
        self._state = _State()
        self._depth = 0
        self._answers = (
            None if served is None else Answers(served, lambda: self.script, self._names, self._of)
        )
        self._handlers: dict[type, Callable[..., None]] = {
            Show: self._show,
            Describe: self._describe,
            Explain: self._explain,
            Print: self._print,
            RunScript: self._run_script,
            Steer: self._steer,
            SelectQuery: self._select,
            AssertTopic: self._assert_topic,
            AssertSource: self._assert_source,
            **dict.fromkeys((AssertSchema, AssertValues, AssertTombstone), self._refuse),
        }

    @property
    def script(self) -> str:
        """The statements kept so far, as a file of them."""
        return "".join(f"{text}\n" for text in self._state.kept)

    def _names(self) -> set[str]:
        """The names of the script's streams and tables."""
        sources = {source.name for source in self.topology.sources}
        return sources | {query.sink.name for query in self.topology.queries}

    @property
    def topology(self) -> Topology:
        """The script's topology."""
        return self._state.topology

    def run(self, text: str) -> None:
        """Execute statements one after the other.

        Raises:
            HoldfastError: one of them is refused; the ones before it have been executed.
        """
        for start, end in statement_places(text):
            # Earlier statements are blanked out, so that errors have positions in the whole text.
            self._one(re.sub(r"[^\n]", " ", text[:start]) + text[start:end])

    def _one(self, text: str) -> None:
        known = deepcopy(self._state.definitions)
        found = parse(Script(text), known, place=Place.SESSION)
        statement = found[0] if found else None  # None: about the substitution of variables
        handler = self._handlers.get(type(statement))
        if handler is not None:
            handler(statement, text)
            return
        self._keep(text)
        self._state.definitions = known
        self._tell(_done(statement))

    def close(self) -> None:
        """End the session's own query server, if there is one."""
        if self._answers is not None:
            self._answers.close()

    def _select(self, statement: SelectQuery, text: str) -> None:
        if self._answers is None:
            raise Script(text).unsupported(statement.at, "no query server answers this session")
        self._answers.select(statement, dict(self.topology.properties))

    def _of(self) -> str:
        """The application id of the job that runs the script's queries.

        Raises:
            Refused: no job does, or several do.
        """
        if self._job is not None:
            return self._job
        jobs, ids = self._broker.jobs(), {query.id for query in self.topology.queries}
        running = {job: book for job, book in jobs.items() if ids & set(book.told)}
        return job_of(running, None, None)[0]

    def _keep(self, text: str) -> None:
        self._state.topology = self._planned(text)
        kept = text.strip()
        self._state.kept.append(kept if kept.endswith(";") else f"{kept};")

    def _planned(self, text: str) -> Topology:
        """The script with `text` after it."""
        before = self.script
        try:
            return compile_text(
                before + text, extra_aggregates=self._functions, schemas=self._broker.schemas
            )
        except InvalidStatement as error:
            raise _placed_in(error, before.count("\n")) from None

    def _refuse(self, statement: AssertSchema | AssertValues | AssertTombstone, text: str) -> None:
        what = "schemas of a registry" if isinstance(statement, AssertSchema) else "records"
        raise Script(text).unsupported(
            statement.at,
            f"a session does not assert {what}",
            action="test statements with `holdfast test`",
        )

    def _assert_source(self, statement: AssertSource, text: str) -> None:
        self._planned(text)
        self._tell(f"{statement.kind.capitalize()} {statement.name.text} is as asserted.")

    def _steer(self, statement: Steer, text: str) -> None:
        """Send an order to the job that runs the query; TERMINATE also removes it from the
        script.
        """
        query = None if statement.query is None else statement.query.text
        ids = statements(self.topology.queries)
        in_script = bool(ids) if query is None else known_id(query, ids) is not None
        jobs = self._broker.jobs()
        runs = any(query is None or known_id(query, book.told) for book in jobs.values())
        if runs or (jobs and not in_script):
            job, book = job_of(jobs, self._job, query)
            self._tell(as_text(job, give_orders(book, statement.verb, query, wait_s=_OBEY_S)))
        elif statement.verb != "TERMINATE":
            why = "has that query" if self._broker.answers() else "is there: no broker answers"
            raise Script(text).invalid(
                statement.at, f"{statement.verb} reaches no running job: none {why}",
                action="run the script as a job, or name the broker: bootstrap.servers",
            )  # fmt: skip
        if statement.verb == "TERMINATE" and (in_script or not jobs):
            self._keep(text)
            self._tell("The script has it no longer.")

    def _show(self, statement: Show, text: str) -> None:
        if statement.what == "TOPICS":
            self._tell(self._broker.topics(everything=statement.all, extended=statement.extended))
            return
        self._tell(*self._shown().show(statement))

    def _describe(self, statement: Describe, text: str) -> None:
        self._tell(*self._shown().describe(statement, Script(text)))

    def _shown(self) -> Shown:
        state = self._state
        jobs = {
            job: {i: state_now(book, i) for i in book.told}
            for job, book in self._broker.jobs().items()
        }
        return Shown(state.topology, state.definitions, self._functions, self._given, jobs)

    def _explain(self, statement: Explain, text: str) -> None:
        if statement.query is not None:
            self._tell(self._shown().plan_of(statement.query, Script(text)))
            return
        before = {q.id for q in self.topology.queries}
        inner = re.sub(r"\bEXPLAIN\b", " " * len("EXPLAIN"), text, count=1, flags=re.IGNORECASE)
        planned = self._planned(inner)
        new = tuple(q for q in planned.queries if q.id not in before)
        self._tell(explain(Topology(new or planned.queries, planned.sources)))

    def _print(self, statement: Print, text: str) -> None:
        for line in self._broker.records(statement, self.topology):
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _run_script(self, statement: RunScript, text: str) -> None:
        script = Script(text)
        if self._depth >= _SCRIPTS_DEEP:
            raise script.invalid(statement.at, f"scripts run each other {_SCRIPTS_DEEP} deep")
        try:
            found = Path(statement.path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise script.invalid(
                statement.at, f"{statement.path} cannot be read: {error}",
                action="give the path of a file of statements",
            ) from error  # fmt: skip
        self._depth += 1
        try:
            self.run(found)
        finally:
            self._depth -= 1

    def _assert_topic(self, statement: AssertTopic, text: str) -> None:
        self._broker.assert_topic(statement, Script(text))
        self._tell(f"Topic {statement.topic} is {'there' if statement.exists else 'not there'}.")

    def _tell(self, *parts: RenderableType) -> None:
        for part in parts:
            self._console.print(part, markup=False, highlight=False)


def _placed_in(error: InvalidStatement, lines_before: int) -> InvalidStatement:
    """The error with its place in the statement, not in the whole script."""
    return type(error)(
        _PLACE.sub("", error.fact, count=1),
        cause=error.cause,
        action=error.action,
        line=max(1, error.line - lines_before),
        column=error.column,
    )


def _done(statement: Statement | None) -> str:
    if isinstance(statement, CreateSource | CreateAs):
        return f"{statement.kind.capitalize()} {statement.name.text} is in the script."
    if isinstance(statement, InsertValues):
        return f"The record for {statement.target.text} is in the script."
    if isinstance(statement, InsertSelect):
        return f"The query into {statement.target.text} is in the script."
    if isinstance(statement, DropSource):
        return f"{statement.kind.capitalize()} {statement.name.text} is dropped from the script."
    if isinstance(statement, CreateType):
        return f"Type {statement.name.text} is {statement.type}."
    return "Done."

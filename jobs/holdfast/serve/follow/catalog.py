"""The served tables, according to the scripts and topics as they are now."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError, InvalidStatement
from holdfast.serve.contract import ServedTable, Unserved
from holdfast.serve.follow.generations import Generations
from holdfast.serve.tables import StoredTable, candidates
from holdfast.serve.tables.found import Candidate
from holdfast.transport.cluster.admin import TopicInfo
from holdfast.transport.registry import registry_of
from holdfast.types.columns.schemas import Schemas
from holdfast.types.statements.topology import Topology

__all__ = ["Script", "ScriptCatalog"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Script:
    """One job's statements.

    Attributes:
        name: for messages.
        text: function that reads them.
        load: function that plans them, with the settings of their job.
    """

    name: str
    text: Callable[[], str]
    load: Callable[[], tuple[Topology, Settings]]


@dataclass(frozen=True)
class _Planned:
    """All scripts, planned."""

    texts: tuple[str, ...] = ()
    topology: Topology = field(default_factory=lambda: Topology(()))
    tables: tuple[tuple[str, Candidate], ...] = ()  # application id, table
    unserved: tuple[Unserved, ...] = ()


@dataclass(frozen=True)
class _Published:
    """The state that readers see, all from one refresh, so that topics and tables always match.

    Attributes:
        topics: None before the first refresh.
    """

    topics: Mapping[str, TopicInfo | None] | None
    tables: Mapping[str, StoredTable]
    unserved: Mapping[str, Unserved]


_LEAVING_S = 60.0  # other servers may still ask for what this one serves no more


_Known = Callable[[str], Mapping[str, Generations]]


def _never_rescaled(_: str) -> Mapping[str, Generations]:
    return {}


class ScriptCatalog:
    """Owns the planned scripts; call `refresh` from one thread, the rest from any."""

    def __init__(
        self,
        scripts: Sequence[Script],
        registry: Callable[[Settings], Schemas | None] | None = None,
    ) -> None:
        """Reads the scripts.

        Args:
            registry: the registry of formats that have one; without, that of the settings.

        Raises:
            InvalidStatement, InvalidConfig: a script is wrong, or two name the same table.
        """
        self._scripts = list(scripts)
        self._registry = registry or (lambda settings: registry_of(settings.registry.client()))
        self._planned = self._plan(self._texts())
        self._current = self._planned.tables  # in the generations that count
        self._beside: dict[str, StoredTable] = {}  # followed and not served, by `held_as`
        self._left: dict[str, tuple[StoredTable, float]] = {}  # likewise, until when
        self._published = self._made(None, {}, lambda _: True)
        self._version = 1
        self.error: str | None = None

    def tables(self) -> Mapping[str, ServedTable]:
        """See `Catalog`."""
        return self._published.tables

    def stored(self) -> Sequence[StoredTable]:
        """The tables to follow: those that are served, and generations that will be, or were."""
        every = {table.held_as: table for table in self._published.tables.values()}
        return list((self._beside | every).values())

    def expected(self) -> Mapping[str, StoredTable] | None:
        """The served tables; None before the first `refresh`."""
        published = self._published
        return published.tables if published.topics is not None else None

    def unserved(self) -> Mapping[str, Unserved]:
        """See `Catalog`."""
        return self._published.unserved

    def topology(self) -> Topology:
        """See `Catalog`."""
        return self._planned.topology

    def script(self) -> str:
        """See `Catalog`."""
        return "\n".join(self._planned.texts)

    @property
    def version(self) -> int:
        """See `Catalog`."""
        return self._version

    def topic_id(self, topic: str) -> str:
        """The topic's id as of the last refresh; empty if it does not exist."""
        found = (self._published.topics or {}).get(topic)
        return found.topic_id if found is not None else ""

    def stores(self) -> dict[tuple[str, str], str]:
        """Every table's store, (application id, store name) -> table, even before its topic
        exists.
        """
        made = [table.made(1) for _, table in self._current]
        return {(t.application_id, t.store_name): t.held_as for t in (*made, *self.stored())}

    def refresh(
        self,
        describe: Callable[[str], TopicInfo | None],
        generations: _Known = _never_rescaled,
        is_reached: Callable[[StoredTable], bool] = lambda _: True,
    ) -> None:
        """Read the scripts and the topics again.

        A script that has become wrong changes nothing; `error` holds the reason.

        Args:
            generations: of a job's changelogs, by query id.
            is_reached: whether a table of the generation that counts can be served; until then that
                of the one before is.

        Raises:
            KafkaUnavailable, Refused: the topics could not be described.
        """
        try:
            texts = self._texts()
            if texts != self._planned.texts:
                self._planned = self._plan(texts)
                self._version += 1
                _LOG.info("The statements have changed; tables: %s", self._names())
            self.error = None
        except HoldfastError as error:
            if self.error != error.fact:
                _LOG.error("The statements that were served before are kept: %s", error)
            self.error = error.fact
        jobs = {application for application, _ in self._planned.tables}
        known = {application: generations(application) for application in jobs}
        found = [
            (application, table, known[application].get(table.query_id or "", Generations()))
            for application, table in self._planned.tables
        ]
        self._current = tuple((application, table.of(n.current)) for application, table, n in found)
        coming = [table.of(n.coming) for _, table, n in found if n.coming > n.current]
        names = {table.topic for _, table in self._current} | {table.topic for table in coming}
        names |= {table.topic for table in self.stored()}
        topics = {topic: describe(topic) for topic in sorted(names)}
        self._published = self._made(topics, self._published.tables, is_reached)
        for table in coming:
            info = topics[table.topic]
            if info is not None:
                made = table.made(info.partitions)
                self._beside[made.held_as] = made

    def _names(self) -> str:
        return ", ".join(table.name for _, table in self._planned.tables) or "none"

    def _texts(self) -> tuple[str, ...]:
        return tuple(script.text() for script in self._scripts)

    def _plan(self, texts: tuple[str, ...]) -> _Planned:
        topologies: list[Topology] = []
        tables: list[tuple[str, Candidate]] = []
        unserved: dict[str, Unserved] = {}
        for script in self._scripts:
            topology, settings = script.load()
            found = candidates(topology, settings.application_id, self._registry(settings))
            topologies.append(topology)
            _refuse_twins(script.name, found.tables, tables)
            known = {table.name for _, table in tables}
            tables += [(settings.application_id, t) for t in found.tables if t.name not in known]
            unserved |= {each.name: each for each in found.unserved}
        return _Planned(texts, _merged(topologies), tuple(tables), tuple(unserved.values()))

    def _made(
        self,
        topics: Mapping[str, TopicInfo | None] | None,
        kept: Mapping[str, StoredTable],
        is_reached: Callable[[StoredTable], bool],
    ) -> _Published:
        """Tables over the topics; unchanged tables stay the same objects."""
        self._left = {k: one for k, one in self._left.items() if one[1] > time.monotonic()}
        self._beside = {k: table for k, (table, _) in self._left.items()}
        tables: dict[str, StoredTable] = {}
        unserved = {each.name: each for each in self._planned.unserved}
        for _, candidate in self._current:
            info = (topics or {}).get(candidate.topic)
            if info is None:
                unserved[candidate.name] = _not_there(candidate)
                continue
            made = candidate.made(info.partitions)
            before = kept.get(made.name)
            if before is not None and before.held_as != made.held_as:
                other = (topics or {}).get(before.topic) is not None and not is_reached(made)
                served, beside = (before, made) if other else (made, before)
                tables[made.name] = served
                self._beside[beside.held_as] = beside
                if not other:
                    self._left[beside.held_as] = beside, time.monotonic() + _LEAVING_S
                continue
            tables[made.name] = before if before == made and before is not None else made
        return _Published(topics, tables, unserved)


def _not_there(table: Candidate) -> Unserved:
    reason = f"The topic {table.topic}, which has the rows of {table.name}, does not exist yet."
    return Unserved(table.name, "TABLE", reason)


def _refuse_twins(
    script: str, found: Sequence[Candidate], before: Sequence[tuple[str, Candidate]]
) -> None:
    """A name may stand for one topic only; several jobs may declare the same table."""
    topics = {table.name: table.topic for _, table in before}
    for table in found:
        if topics.get(table.name, table.topic) != table.topic:
            raise InvalidStatement(
                f"The table {table.name} of {script} is read from {table.topic}, one of the same "
                f"name in another script from {topics[table.name]}.",
                action="serve the two scripts by servers of their own, or rename a table.",
            )


def _merged(topologies: Sequence[Topology]) -> Topology:
    return Topology(
        tuple(query for each in topologies for query in each.queries),
        tuple({s.name: s for each in topologies for s in each.sources}.values()),
        tuple(p for each in topologies for p in each.properties),
    )

"""The served tables, according to the scripts and topics as they are now."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError, InvalidStatement
from holdfast.serve.contract import ServedTable, Unserved
from holdfast.serve.tables import StoredTable, candidates
from holdfast.serve.tables.found import Candidate
from holdfast.transport.cluster.admin import TopicInfo
from holdfast.types.topology import Topology

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


class ScriptCatalog:
    """Owns the planned scripts; call `refresh` from one thread, the rest from any."""

    def __init__(self, scripts: Sequence[Script]) -> None:
        """Reads the scripts.

        Raises:
            InvalidStatement, InvalidConfig: a script is wrong, or two name the same table.
        """
        self._scripts = list(scripts)
        self._planned = self._plan(self._texts())
        self._published = self._made(None, {})
        self._version = 1
        self.error: str | None = None

    def tables(self) -> Mapping[str, ServedTable]:
        """See `Catalog`."""
        return self._published.tables

    def stored(self) -> Mapping[str, StoredTable]:
        """The served tables, for followers."""
        return self._published.tables

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

    def topics(self) -> set[str]:
        """The topics that tables are read from."""
        return {table.topic for _, table in self._planned.tables}

    def topic_id(self, topic: str) -> str:
        """The topic's id as of the last refresh; empty if it does not exist."""
        found = (self._published.topics or {}).get(topic)
        return found.topic_id if found is not None else ""

    def stores(self) -> dict[tuple[str, str], str]:
        """Every table's store, (application id, store name) -> table, even before its topic
        exists.
        """
        made = ((a, table.made(1)) for a, table in self._planned.tables)
        return {(application, table.store_name): table.name for application, table in made}

    def refresh(self, describe: Callable[[str], TopicInfo | None]) -> None:
        """Read the scripts and the topics again.

        A script that has become wrong changes nothing; `error` holds the reason.

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
        topics = {topic: describe(topic) for topic in sorted(self.topics())}
        self._published = self._made(topics, self._published.tables)

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
            found = candidates(topology, settings.application_id)
            topologies.append(topology)
            _refuse_twins(script.name, found.tables, tables)
            known = {table.name for _, table in tables}
            tables += [(settings.application_id, t) for t in found.tables if t.name not in known]
            unserved |= {each.name: each for each in found.unserved}
        return _Planned(texts, _merged(topologies), tuple(tables), tuple(unserved.values()))

    def _made(
        self, topics: Mapping[str, TopicInfo | None] | None, kept: Mapping[str, StoredTable]
    ) -> _Published:
        """Tables over the topics; unchanged tables stay the same objects."""
        tables: dict[str, StoredTable] = {}
        unserved = {each.name: each for each in self._planned.unserved}
        for _, candidate in self._planned.tables:
            info = (topics or {}).get(candidate.topic)
            if info is None:
                unserved[candidate.name] = _not_there(candidate)
                continue
            made = candidate.made(info.partitions)
            before = kept.get(made.name)
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

"""Judges a whole run: the oracle judges its tables, checkers of the history judge the run."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.chaos.history.events import read_history
from holdfast.chaos.history.run_file import RunFile
from holdfast.chaos.history.strikes import RunHistory, recovery_seconds, summarize
from holdfast.chaos.load.workload import HEADER
from holdfast.chaos.reads.answers import States, reads_of, tables_read
from holdfast.chaos.reads.checkers import READ_CHECKERS, ReadEvidence
from holdfast.chaos.reads.stats import read_stats, table_reads
from holdfast.chaos.reads.table_rows import asked_tables
from holdfast.chaos.report.files import verdict_as_json
from holdfast.chaos.run.checkers import RUN_CHECKERS, RunEvidence
from holdfast.config.settings import Settings
from holdfast.judge.checkers.checking import judge
from holdfast.judge.oracle import Oracle, OracleOptions
from holdfast.judge.read.archived import ArchivedObserver
from holdfast.judge.read.observe import Observer
from holdfast.judge.read.topic_archive import archives
from holdfast.judge.verdict import RunVerdict
from holdfast.transport.registry import registry_of
from holdfast.types.statements.topology import Topology
from holdfast.types.stores import JobStores

__all__ = ["judge_run", "quiet_seconds", "recoveries_by_kind"]

_CATCH_UP_S = 120.0


def judge_run(
    folder: Path,
    topology: Topology,
    settings: Settings,
    *,
    stores: Callable[[], JobStores] | None,
    tell: Callable[[str], None],
) -> RunVerdict:
    """The verdict on a run that has been healed and is quiet; also written to `verdict.json`.

    Args:
        folder: the run's folder, with `run.json` and the history.
        stores: reads the stores, by (query id, state partition); see `JobStores`.  None: they
            cannot be read here, so they are not compared.
        tell: receives a line now and then.

    Raises:
        Refused: there is no run in the folder.
        KafkaUnavailable, TopicMissing: the input topics cannot be read.
    """
    asked = RunFile.read(folder)
    observer = ArchivedObserver(settings.client(), settings.application_id, archives(folder))
    events = read_history(folder)
    history = summarize(events)
    # Where the run waited for this in vain, do not wait again for every table.
    catch_up_s = _CATCH_UP_S if history.quiet else 0.0
    options = OracleOptions(
        catch_up_s, quiet_seconds(settings), settings.warn, settings.functions,
        registry_of(settings.registry.client()),
    )  # fmt: skip
    oracle = Oracle(settings.application_id, observer, options=options, stores=stores, tell=tell)
    job = oracle.judge(topology)
    tell("counting the workload's records in the input topics")
    found = _numbers(observer, topology, folder.name)
    findings = judge(RunEvidence(asked.schedule, history, found), RUN_CHECKERS)
    reads, found_tables = reads_of(events), asked_tables(topology)
    tables: Mapping[str, States] = {}
    if asked.servers and found_tables.tables:
        tell("comparing answers with what the tables had")
        tables = tables_read(reads, found_tables.tables, observer)
        read = ReadEvidence(len(asked.servers), reads, tables, history.strikes, asked.copies)
        findings += judge(read, READ_CHECKERS)
    verdict = RunVerdict(
        folder.name,
        job,
        findings,
        recoveries_by_kind(history),
        read_stats(reads, history.strikes),
        table_reads(reads, tables, found_tables.others) if asked.servers else (),
    )
    (folder / "verdict.json").write_text(verdict_as_json(verdict), encoding="utf-8")
    return verdict


def quiet_seconds(settings: Settings) -> float:
    """How long to wait for open transactions: a killed producer's transaction times out."""
    return settings.transaction_timeout_ms / 1000 + 30


def _numbers(observer: Observer, topology: Topology, run: str) -> array[int]:
    """The workload's number of every record of the run in the input topics."""
    found = array("q")
    sinks = {query.sink.topic for query in topology.queries}
    prefix = f"{run}/".encode()
    sources = {source.topic for query in topology.queries for source in query.sources}
    for topic in sorted(sources - sinks):
        for value in observer.header_values(topic, HEADER):
            if value.startswith(prefix):
                found.append(int(value[len(prefix) :]))
    return found


def recoveries_by_kind(history: RunHistory) -> dict[str, tuple[float, ...]]:
    """Seconds of the observed recoveries, by component and fault."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for strike, seconds in zip(history.strikes, recovery_seconds(history), strict=True):
        if seconds is not None and strike.landed:
            found[strike.kind].append(round(seconds, 3))
    return {kind: tuple(seconds) for kind, seconds in sorted(found.items())}

"""Kafka Streams: one process, two threads, RocksDB, exactly_once_v2, otherwise its defaults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import orjson

from holdfast.config.versions import KAFKA_VERSION
from holdfast.local.java import find_java
from tests.bench.systems.jars import (
    REGISTRY_SOURCES,
    SOURCE,
    build,
    registry_jars,
    streams_jars,
)
from tests.bench.systems.peers import Case, Command, Restored
from tests.bench.workloads import Query

__all__ = ["KafkaStreams"]

_HEAP = "-Xmx1g"  # as each of Holdfast's JVMs has


class KafkaStreams:
    """Runs the program in java/; `tools` is where its classes are kept."""

    name = "kafka-streams"
    title = "Kafka Streams"
    can_restore = True
    rescaling = None
    reads_registered = True
    queries = frozenset(Query)

    def __init__(self, tools: Path) -> None:
        self._classes = tools / "kafka-streams"
        self._jars = self._registry_jars = Path()
        self.notes = (
            f"{KAFKA_VERSION}, exactly_once_v2, RocksDB, 2 threads, {_HEAP}, otherwise defaults; "
            "Apicurio's serdes for Avro and Protobuf"
        )

    def prepare(self, report: Callable[[str], None]) -> None:
        report("fetching and building Kafka Streams")
        self._jars = streams_jars()
        build(self._classes, self._jars, SOURCE)
        self._registry_jars = registry_jars()
        build(self._classes.with_name("registry"), self._registry_jars, *REGISTRY_SOURCES)

    def commands(self, case: Case) -> list[Command]:
        if case.registry:
            return [self._registered(case)]
        argv = [find_java(), _HEAP, "-cp", f"{self._classes}:{self._jars}/*", "TableBench"]
        argv += [case.bootstrap, case.application, ",".join(case.topics), case.sink_topic]
        return [Command([*argv, case.query.value, str(case.folder / "state")])]

    def _registered(self, case: Case) -> Command:
        classes = self._classes.with_name("registry")
        argv = [find_java(), _HEAP, "-cp", f"{classes}:{self._registry_jars}/*", "RegistryBench"]
        argv += [case.bootstrap, case.application, case.input_topic, case.sink_topic]
        return Command([*argv, str(case.folder / "state"), case.form, case.registry])

    def group(self, case: Case) -> str:
        return case.application

    def state_folders(self, case: Case) -> list[Path]:
        return [case.folder / "state"]

    def restored(self, case: Case) -> Restored | None:
        """From the first store's start to the last one's end, once the application runs."""
        events = [orjson.loads(line) for line in _lines(case.folder / "out-0.log")]
        starts = [e for e in events if e["event"] == "restore-start"]
        ends = [e for e in events if e["event"] == "restore-end"]
        states = [e["what"] for e in events if e["event"] == "state"]
        records = sum(e["records"] for e in ends)
        if not records or len(ends) < len(starts) or states[-1:] != ["RUNNING"]:
            return None
        first, last = min(e["ms"] for e in starts), max(e["ms"] for e in ends)
        return Restored(records, (last - first) / 1000)

    def volume_of(self, case: Case, pid: int) -> Path:
        return case.folder / "state"

    def victim(self, case: Case, pids: Sequence[int]) -> tuple[int, bool]:
        return pids[0], True


def _lines(path: Path) -> list[str]:
    """Whole lines of JSON among whatever the process said."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return [line for line in text.split("\n")[:-1] if line.startswith("{")]

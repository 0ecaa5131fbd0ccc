"""Status of jobs' drivers: from /status and /metrics, or from the last status file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import orjson
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from holdfast.types.status import JobState

__all__ = ["Counters", "Driver", "Drivers"]

_TIMEOUT_S = 2.0
_BYTES_MAX = 8 << 20
_BATCHES = {f"holdfast_batch_latency_seconds_{part}": f"batch_{part}" for part in ("sum", "count")}
_COMMITS = "holdfast_commit_latency_seconds_bucket"
_WANTED = (*_BATCHES, _COMMITS)


@dataclass(frozen=True)
class Counters:
    """A query's counters since its driver's start.

    Attributes:
        batch_sum: seconds of all batches; `batch_count`: their number.
        commits: histogram buckets (upper bound in seconds, cumulative count), the last unbounded.
    """

    batch_sum: float = 0.0
    batch_count: float = 0.0
    commits: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Driver:
    """One job's driver.

    Attributes:
        status: the body of /status (`runtime.watching.endpoint.status_body`), or the file's
            content.
        answers: whether it has just answered; else `status` is what it wrote last.
        counters: by query id.
    """

    status: Mapping[str, Any]
    answers: bool
    counters: Mapping[str, Counters] = field(default_factory=dict)

    @property
    def application_id(self) -> str:
        return str(self.status.get("application_id", ""))

    @property
    def queries(self) -> Mapping[str, Mapping[str, Any]]:
        """By query id."""
        found = self.status.get("queries")
        return found if isinstance(found, dict) else {}


class Drivers:
    """Queries drivers; owns the last answers of those that no file of the home tells of.

    Args:
        home: folder whose status files name drivers on this machine.
        urls: base addresses of other drivers, such as `http://movies-driver:9404`.
    """

    def __init__(self, home: Path, urls: Sequence[str] = ()) -> None:
        self._home = home
        self._urls = tuple(url.rstrip("/").removesuffix("/status") for url in urls)
        self._last: dict[str, Driver] = {}

    @property
    def never_heard(self) -> int:
        """The number of given addresses at which no driver has answered yet."""
        return len(set(self._urls) - self._last.keys())

    async def ask(self) -> list[Driver]:
        """Every known job, by application id; an answer wins over a file, a file over memory."""
        files = await asyncio.to_thread(_files, self._home)
        local = [_base(status.get("metrics_url", "")) for status in files]
        urls = dict.fromkeys(url for url in (*self._urls, *local) if url)
        asked = await asyncio.gather(*(asyncio.to_thread(_ask, url) for url in urls))
        answers = {url: driver for url, driver in zip(urls, asked, strict=True) if driver}
        self._last |= {url: answers[url] for url in self._urls if url in answers}
        silent = [Driver(last.status, answers=False) for last in self._last.values()]
        found = {driver.application_id: driver for driver in silent}
        found |= {file["application_id"]: Driver(file, answers=False) for file in files}
        found |= {driver.application_id: driver for driver in answers.values()}
        return [found[name] for name in sorted(found)]


def _files(home: Path) -> list[dict[str, Any]]:
    """Status files, without the address of a stopped driver: another may have taken it."""
    found = []
    for path in sorted(home.glob("run/*/status.json")):
        status = _json(_read(path))
        if not isinstance(status, dict) or "application_id" not in status:
            continue
        if status.get("state") == JobState.STOPPED:
            status["metrics_url"] = ""
        found.append(status)
    return found


def _base(metrics_url: str) -> str:
    return metrics_url.removesuffix("/metrics")


def _ask(url: str) -> Driver | None:
    status = _json(_get(f"{url}/status"))
    if not isinstance(status, dict) or "application_id" not in status:
        return None
    return Driver(status, answers=True, counters=_counters(_get(f"{url}/metrics")))


def _counters(text: bytes) -> dict[str, Counters]:
    batches: dict[str, dict[str, float]] = {}
    commits: dict[str, list[tuple[float, float]]] = {}
    for sample in _samples(text.decode(errors="replace")):
        query = sample.labels.get("query", "")
        if sample.name in _BATCHES:
            batches.setdefault(query, {})[_BATCHES[sample.name]] = sample.value
        else:
            commits.setdefault(query, []).append((float(sample.labels["le"]), sample.value))
    return {
        query: Counters(**batches.get(query, {}), commits=tuple(sorted(commits.get(query, []))))
        for query in batches | commits
    }


def _samples(text: str) -> Iterable[Sample]:
    """The samples that the console needs; a driver's metrics are always well-formed.

    There is also a line for each state partition, so only the needed lines are parsed.
    """
    lines = [line for line in text.split("\n") if line.startswith(_WANTED)]
    for family in text_string_to_metric_families("\n".join([*lines, ""])):
        yield from (sample for sample in family.samples if sample.name in _WANTED)


def _json(data: bytes) -> object:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _get(url: str) -> bytes:
    """The body, or nothing when the driver does not answer in time."""
    if not url.startswith(("http://", "https://")):
        return b""
    try:
        with urlopen(url, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - http only, see `_base`
            body: bytes = answer.read(_BYTES_MAX)
            return body
    except (URLError, OSError, ValueError):
        return b""

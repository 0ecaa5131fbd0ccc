"""Look-ups by key while an executor, the driver, the broker and one of two servers are killed.

A run of `holdfast chaos`: a small job with a Kafka of its own, two query servers with a copy each
of everything, four readers, and SIGKILL.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import orjson

from holdfast.chaos.history.events import read_history
from holdfast.chaos.history.run_file import run_folder
from holdfast.chaos.history.strikes import Strike, summarize
from holdfast.chaos.reads.answers import Read, reads_of
from holdfast.chaos.reads.checkers import strikes_during
from holdfast.chaos.reads.stats import read_stats

__all__ = ["Killed", "kills", "rows_of_kills"]

_NAME, _SEED = "serving", 9
_VICTIMS = ("executor", "driver", "broker", "server")
_SQL = """
SET 'state.partitions' = '4';
SET 'transaction.timeout.ms' = '10000';
CREATE STREAM orders (customer VARCHAR, amount BIGINT)
  WITH (KAFKA_TOPIC = 'orders', VALUE_FORMAT = 'JSON', PARTITIONS = 4);
CREATE TABLE totals AS
  SELECT customer, COUNT(*) AS orders, SUM(amount) AS total FROM orders GROUP BY customer
  EMIT CHANGES;
"""


@dataclass(frozen=True)
class Killed:
    """Reads while one kind of victim was dead or its job had not recovered.

    Attributes:
        victim: also `all` reads, and `undisturbed` ones.
        kills: how often one was killed.
        longest_gap_s: the longest that a reader was without an answer, its pauses included.
    """

    victim: str
    kills: int
    reads: int
    failed: int
    p99_ms: float
    longest_gap_s: float


def kills(home: Path, rounds: int) -> tuple[list[Killed], str]:
    """The rows of the report, and the verdict about tables and answers.

    Args:
        home: of the run, without a Kafka in it; the run's folder stays there.
        rounds: how many are killed; with 5 every kind is among them.

    Raises:
        RuntimeError: the run was refused.
    """
    argv = [str(Path(sys.executable).parent / "holdfast"), "chaos", "run", _NAME, "--own"]
    argv += ["--home", str(home), "--run", _NAME, "--sql", _SQL, "--seed", str(_SEED)]
    argv += ["--components", ",".join(_VICTIMS), "--faults", "kill", "--moments", "random"]
    argv += ["--rounds", str(rounds), "--servers", "2", "--rate", "1000", "--keys", "1000"]
    ran = subprocess.run([*argv, "--json"], capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 1, 3):
        raise RuntimeError(f"the kills ended with {ran.returncode}: {ran.stderr[-2_000:]}")
    events = read_history(run_folder(home, _NAME))
    verdict = str(orjson.loads(ran.stdout)["verdict"])
    return rows_of_kills(reads_of(events), summarize(events).strikes), verdict


def rows_of_kills(reads: Sequence[Read], strikes: Sequence[Strike]) -> list[Killed]:
    """All reads, undisturbed ones, then those of each victim."""
    rows = []
    for stats in read_stats(reads, strikes):
        during = [s for s in strikes if s.kind == stats.kind]
        count = len(strikes) if stats.kind == "all" else len(during)
        gap_s = max(_gaps(reads, strikes, stats.kind), default=0.0)
        rows.append(
            Killed(
                stats.kind.removesuffix(" kill"),
                count,
                stats.count,
                stats.failed,
                stats.p99_ms,
                round(gap_s, 3),
            )
        )
    return rows


def _gaps(reads: Sequence[Read], strikes: Sequence[Strike], kind: str) -> list[float]:
    """From each answer to the same reader's next one, where `kind` fell into it."""
    answers = [read for read in reads if read.rows is not None]
    found = []
    for one, other in pairwise(answers):
        if one.session != other.session:
            continue
        kinds = {s.kind for s in strikes_during(other, strikes)}
        if kind in (kinds or {"undisturbed"}) or kind == "all":
            found.append(other.end_s - one.end_s)
    return found

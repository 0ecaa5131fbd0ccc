"""Runs cases and judges them."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from holdfast.errors import HoldfastError, InvalidTestCase
from holdfast.runtime.schemas import with_registered
from holdfast.sql import compile_text
from holdfast.sql.parse.text import Place
from holdfast.testing.broker import BrokerEngine
from holdfast.testing.cases import Case, Spec
from holdfast.testing.compare import Difference, compare, has_words
from holdfast.testing.engine import Engine
from holdfast.testing.insertions import insertion_records, unmet
from holdfast.testing.phases import Life, phases
from holdfast.testing.registry import registry_of
from holdfast.testing.rest.run import Judged, judged_answers, judged_refusal
from holdfast.testing.schemas import wrong_sources
from holdfast.testing.topics import Topics
from holdfast.transport.registry import MemoryRegistry
from holdfast.types.statements.sources import Format
from holdfast.types.statements.topology import Emit, Topology

__all__ = ["Outcome", "Result", "Runner", "with_properties"]

_REGISTERED = frozenset(form for form in Format if form.schema_kind is not None)
_EXACT = "use.exact.numeric.comparison"


class Outcome(StrEnum):
    """The outcome of a case."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"  # an unexpected failure
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Result:
    """A case's outcome and why.

    Attributes:
        reason: one line or a few; empty when it passed.
        differences: records that are not as expected.
        words: for a case that must be refused, whether our message has the expected words.
        trace: where an error came from, shortened.
    """

    case: Case
    outcome: Outcome
    reason: str = ""
    differences: tuple[Difference, ...] = ()
    seconds: float = 0.0
    words: bool | None = None
    trace: str = ""


class _Engine(Protocol):
    """Runs a Topology over the records of its topics."""

    def run(self, topology: Topology, topics: Topics, life: Life) -> list[str]:
        """Adds the queries' output; returns the records that were left out, and why."""


class Runner:
    """Runs cases: two at a time in this process, or one after the other on a broker."""

    def __init__(
        self,
        emit: Emit = Emit.RECORD,
        *,
        threads: int = 2,
        batch_records: int | None = None,
        broker: str | None = None,
    ) -> None:
        """See the class.

        Args:
            batch_records: how many records a query processes at a time; None: all of a case.
            broker: bootstrap servers.
        """
        self._emit = emit
        self._threads = threads
        self._batch_records = batch_records
        self._broker = broker

    def run(self, cases: Sequence[Case]) -> Iterator[Result]:
        """The results, in the order of the cases."""
        if self._broker is not None:
            job = BrokerEngine(self._broker, self._emit)
            yield from (_run(case, job, on_broker=True) for case in cases)
            return
        engine = Engine(self._emit, self._batch_records)
        with ThreadPoolExecutor(self._threads) as pool:
            try:
                yield from pool.map(lambda case: _run(case, engine), cases)
            finally:
                pool.shutdown(cancel_futures=True)


def _run(case: Case, engine: _Engine, *, on_broker: bool = False) -> Result:
    skipped = _why_skipped(case, on_broker=on_broker)
    if skipped:
        return Result(case, Outcome.SKIPPED, skipped)
    if case.wrong:
        return Result(case, Outcome.FAILED, case.wrong)
    started = time.perf_counter()
    result = _judged(case, engine)
    return replace(result, seconds=time.perf_counter() - started)


def _why_skipped(case: Case, *, on_broker: bool) -> str:
    if case.disabled:
        return "disabled in its file"
    if case.rest is not None and on_broker:
        return "a query server is only asked without --broker"
    if case.rest is not None and case.rest.in_protobuf:
        return "servers answer in JSON, not in Protobuf"
    if case.rest is not None and case.rest.wait_for_query:
        return "inputs that wait for a push query are not supported yet"
    if case.formats & _REGISTERED and on_broker:
        return "formats with a schema registry are only tested without --broker"
    return ""


def _judged(case: Case, engine: _Engine) -> Result:
    try:
        verdict = _verdict(case, engine)
    except HoldfastError as error:
        return _refused(case, error)
    except Exception as error:  # noqa: BLE001 - a case must never stop the others
        return Result(
            case, Outcome.ERROR, f"{type(error).__name__}: {error}", trace=_short_trace(error)
        )
    if case.refusal is not None:
        return Result(
            case, Outcome.FAILED, f"It was to be refused: {case.refusal.message}", words=False
        )
    if not verdict.differences and not verdict.others:
        return Result(case, Outcome.PASSED, verdict.answers.said, words=verdict.answers.words)
    words = verdict.answers.words
    return Result(case, Outcome.FAILED, verdict.reason(), verdict.differences, words=words)


def _refused(case: Case, error: HoldfastError) -> Result:
    wrong_case = isinstance(error, InvalidTestCase)
    if case.rest is not None and case.rest.error is not None and not wrong_case:
        judged = judged_refusal(case.rest, error)
        outcome = Outcome.FAILED if judged.wrong else Outcome.PASSED
        return Result(case, outcome, "\n".join(judged.wrong) or str(error), words=judged.words)
    if case.refusal is None:
        return Result(case, Outcome.FAILED, str(error), trace=_short_trace(error))
    words = has_words(str(error), case.refusal.message)
    return Result(case, Outcome.PASSED, str(error), words=words if case.refusal.message else None)


@dataclass(frozen=True)
class _Verdict:
    """The mismatches of a case that ran.

    Attributes:
        others: mismatches of streams and tables, and of a query server's answers.
        left_out: records that could not be decoded, and why.
        answers: the judgement of a REST case's answers.
    """

    differences: tuple[Difference, ...]
    others: tuple[str, ...]
    left_out: tuple[str, ...]
    answers: Judged

    def reason(self) -> str:
        lines = list(self.others)
        if self.differences:
            topics = sorted({d.topic for d in self.differences})
            lines.insert(0, f"{len(self.differences)} records differ in topic {', '.join(topics)}")
            lines += [f"left out: {why}" for why in self.left_out]
        return "\n".join(lines)


def _verdict(case: Case, engine: _Engine) -> _Verdict:
    text = with_properties(case)
    registry = registry_of(case)
    topology = compile_text(text, place=Place.TEST, schemas=registry)
    topology = with_registered(topology, registry)
    topics, life, left_out = _run_phases(text, topology, case, engine, registry)
    by_topic: dict[str, list[Spec]] = {}
    for spec in case.outputs:
        by_topic.setdefault(spec.topic, []).append(spec)
    exact = case.properties.get(_EXACT, "true").lower() != "false"
    found: list[Difference] = [
        difference
        for topic, expected in by_topic.items()
        for difference in compare(
            topic, expected, topics.decoded(topic), exact=exact, now_is_zero=not case.inputs
        )
    ]
    wrong = unmet(topology.expectations, topics)
    if wrong:
        raise InvalidTestCase("Expected record does not match actual.\n" + "\n".join(wrong))
    answers = judged_answers(case, topology, topics, life)
    others = (*wrong_sources(topology, case.sources), *answers.wrong)
    return _Verdict(tuple(found), others, tuple(left_out), answers)


def _run_phases(
    text: str, topology: Topology, case: Case, engine: _Engine, registry: MemoryRegistry
) -> tuple[Topics, Life, list[str]]:
    """The final topics and state; records that a case lists come after all its statements."""
    in_order = not case.inputs and not case.outputs
    first, *later = phases(text, topology, registry) if in_order else [topology]
    inserted, life = insertion_records(first.insertions), Life()
    topics = Topics(first, case.inputs, inserted, registry)
    left_out = engine.run(first, topics, life)
    known = len(first.insertions)
    for phase in later:
        topics.become(phase)
        life.begin(phase, topics.counts())
        topics.write(insertion_records(phase.insertions[known:]))
        left_out += engine.run(phase, topics, life)
        known = len(phase.insertions)
    return topics, life, left_out


def with_properties(case: Case) -> str:
    """The case's statements, preceded by its properties on the first line."""
    told = (f"SET '{k}'='{_quoted(v)}'; " for k, v in case.properties.items() if k != _EXACT)
    return "".join(told) + case.statements


def _quoted(text: str) -> str:
    return text.replace("'", "''")


def _short_trace(error: BaseException) -> str:
    """The innermost calls of a traceback."""
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    return "\n".join(f"{f.filename}:{f.lineno} {f.name}: {f.line}" for f in frames)

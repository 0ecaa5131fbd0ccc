"""What a run's history says, put together: strikes, samples, load, operations without an end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.chaos.faults.recovery import longest_silence
from holdfast.chaos.faults.words import Fault, Injection, Moment
from holdfast.chaos.history.events import Event, Kind

__all__ = [
    "Load",
    "RunHistory",
    "Sample",
    "Strike",
    "injection_of",
    "recovery_seconds",
    "summarize",
]

_AFTER_THE_RUN = frozenset({"verify", "report"})  # phases that read the history themselves


@dataclass(frozen=True)
class Strike:
    """One injection as it went; times are wall seconds since the epoch.

    Attributes:
        at_s: when the fault struck, else when it was begun.
        outcome: None: the nemesis ended in the middle of it.
        did: what was done, `evidence`: what shows that it happened, both in words.
        held_step: the commit step a state task was held at, empty when nothing was held.
        recovered_s: when the job had recovered; None: it was not seen to.
        waited_s: how long a recovery that did not come was waited for.
        refusal: why the job would not go on at all; empty when it has not said so.
    """

    injection: Injection
    victims: tuple[str, ...]
    at_s: float
    outcome: Kind | None = None
    landed: bool = False
    did: str = ""
    evidence: str = ""
    lag_before: int | None = None
    held_step: str = ""
    recovered_s: float | None = None
    waited_s: float | None = None
    refusal: str = ""

    @property
    def kind(self) -> str:
        """What is compared with its like: component and fault."""
        return f"{self.injection.component} {self.injection.fault.value}"

    @property
    def title(self) -> str:
        """For people."""
        number = f"{self.injection.count} × " if self.injection.count > 1 else ""
        return f"{number}{self.kind}"


@dataclass(frozen=True)
class Sample:
    """One look at the job from outside.

    Attributes:
        input_end: offsets of all input topics together, read committed.
        stable: last stable offsets of all changelogs together: grows with every commit.
        lag: input offsets not yet dealt with; None when unknown.
        committed: input offsets dealt with, as a mean over the queries; None when unknown.
        restoring: whether stores are being restored; None when the driver is silent.
    """

    at_s: float
    input_end: int
    stable: int
    lag: int | None = None
    committed: float | None = None
    restoring: bool | None = None


@dataclass(frozen=True)
class Load:
    """The workload's totals: record numbers `first` to `last` were sent, each once."""

    sent: int
    acked: int
    failed: int
    first: int
    last: int


@dataclass(frozen=True)
class RunHistory:
    """A run, in the order of time.

    Attributes:
        load: None when the workload did not come to its end.
        undisturbed_s: between two commits before anything was broken; None when not measured.
        unfinished: operations of unknown outcome, in words; injections are not among them.
        failed_phases: phases that failed, with their reason.
        time_over_after: so many faults had come when the time for them was over; None: it was not.
    """

    strikes: tuple[Strike, ...] = ()
    samples: tuple[Sample, ...] = ()
    load: Load | None = None
    undisturbed_s: float | None = None
    unfinished: tuple[str, ...] = ()
    failed_phases: tuple[str, ...] = ()
    time_over_after: int | None = None

    @property
    def quiet(self) -> bool:
        """Nobody has waited in vain until the job was ready and its input read."""
        return not any(phase.startswith(("heal", "quiesce")) for phase in self.failed_phases)


def injection_of(fields: Mapping[str, Any]) -> Injection:
    """An injection from its JSON form."""
    kinds = {"fault": Fault(fields["fault"]), "moment": Moment(fields["moment"])}
    return Injection(**{**fields, **kinds})


def summarize(events: Sequence[Event]) -> RunHistory:
    """Puts a history together; `events` as `read_history` gives them."""
    outcomes = {(e.source, e.op): e for e in events if e.kind not in (Kind.INVOKE, Kind.STATE)}
    begun = [(e, outcomes.get((e.source, e.op))) for e in events if e.kind is Kind.INVOKE]
    strikes = [_strike(e, end) for e, end in begun if e.what == "inject"]
    recoveries = [(e, end) for e, end in begun if e.what == "recover"]
    phases = [p for p in begun if p[0].what == "phase" and _name(p[0]) not in _AFTER_THE_RUN]
    # A step may be run again: its last try counts.
    last_tries = list({_name(phase[0]): phase for phase in phases}.values())
    others = [p for p in begun if p[0].what not in ("inject", "phase")]
    return RunHistory(
        strikes=tuple(_recovered(strike, recoveries) for strike in strikes),
        samples=tuple(_sample(e) for e in events if e.what == "sample"),
        load=_load(events),
        undisturbed_s=_undisturbed(events),
        unfinished=tuple(_unfinished([*others, *last_tries])),
        failed_phases=tuple(_failed(last_tries)),
        time_over_after=next(
            (int(e.data["injections"]) for e in events if e.what == "time_over"), None
        ),
    )


def recovery_seconds(history: RunHistory) -> list[float | None]:
    """For each strike the longest silence of commits before the next one.

    None: no commit was seen, or the next one came before the job had recovered.
    """
    commits = [(s.at_s, s.stable) for s in history.samples]
    following = [*history.strikes[1:], None]
    silences = (
        _silence(commits, strike, later)
        for strike, later in zip(history.strikes, following, strict=False)
    )
    return [s or None for s in silences]


def _silence(commits: Sequence[tuple[float, int]], strike: Strike, later: Strike | None) -> float:
    if later is None:
        return longest_silence(commits, strike.at_s, None)
    if strike.recovered_s is None or strike.recovered_s > later.at_s:
        return longest_silence(commits, strike.at_s, later.at_s)
    between = [(at, total) for at, total in commits if at <= later.at_s]
    return longest_silence(between, strike.at_s, None)


def _strike(begun: Event, ended: Event | None) -> Strike:
    data, end = begun.data, ended.data if ended is not None else {}
    return Strike(
        injection=injection_of(data["injection"]),
        victims=tuple(str(v["name"]) for v in data.get("victims", ())),
        at_s=float(end.get("struck_s") or begun.wall_s),
        outcome=ended.kind if ended is not None else None,
        landed=bool(end.get("landed")),
        did=_words(end.get("did")),
        evidence=_words(end.get("evidence")),
        lag_before=end.get("lag_before"),
        held_step=str((data.get("moment_held") or {}).get("step", "")),
    )


def _recovered(strike: Strike, recoveries: Iterable[tuple[Event, Event | None]]) -> Strike:
    """The strike with the recovery that was waited for, its own or, overlapped, a later one's."""
    for begun, ended in recoveries:
        number = int(begun.data.get("injection", -1))
        if ended is None or number < strike.injection.number:
            continue
        if ended.kind is Kind.OK:
            return replace(strike, recovered_s=ended.wall_s)
        if number == strike.injection.number:
            waited_s, refusal = ended.data.get("waited_s", 0.0), ended.data.get("refusal")
            return replace(strike, waited_s=float(waited_s), refusal=_words(refusal))
    return strike


def _sample(event: Event) -> Sample:
    data = event.data
    driver, committed = data.get("driver"), data.get("committed")
    return Sample(
        at_s=event.wall_s,
        input_end=_total(data.get("input_end")),
        stable=_total(data.get("stable")),
        lag=data.get("lag"),
        committed=_total(committed) / len(committed) if committed else None,
        restoring=bool(driver.get("restoring")) if driver else None,
    )


def _load(events: Iterable[Event]) -> Load | None:
    # The baseline before the faults writes some records as well, numbered apart.
    totals = [e.data for e in events if e.what == "produced" and e.source == "workload"]
    if not totals:
        return None
    last = totals[-1]
    names = ("sent", "acked", "failed", "first", "last")
    return Load(**{name: int(last.get(name) or 0) for name in names})


def _undisturbed(events: Iterable[Event]) -> float | None:
    found = [e.data.get("interval_s") for e in events if e.what == "baseline"]
    return float(found[-1]) if found and found[-1] is not None else None


def _unfinished(operations: Iterable[tuple[Event, Event | None]]) -> Iterable[str]:
    for begun, ended in operations:
        if ended is None or ended.kind is Kind.UNKNOWN:
            state = "has no outcome" if ended is None else "ended with an unknown outcome"
            yield f"{_title(begun)} {state}"


def _title(event: Event) -> str:
    if event.what == "recover":
        return f"recovery from fault {int(event.data.get('injection', -1)) + 1}"
    return f"{event.what} {_name(event)}".rstrip()


def _failed(phases: Iterable[tuple[Event, Event | None]]) -> Iterable[str]:
    for begun, ended in phases:
        if ended is not None and ended.kind is Kind.FAIL:
            reason = _words(ended.data.get("reason") or ended.data.get("error"))
            yield f"{_name(begun)}: {reason}" if reason else _name(begun)


def _name(event: Event) -> str:
    return str(event.data.get("name", ""))


def _words(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "; ".join(map(str, value))
    return "" if value is None else str(value)


def _total(value: Any) -> int:
    """A number, or the sum of a mapping's; what is not said counts as 0."""
    return sum(map(int, value.values())) if isinstance(value, Mapping) else int(value or 0)

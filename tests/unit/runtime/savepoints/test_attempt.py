"""An attempt to make a savepoint waits only for copies that may still be uploaded."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.runtime.savepoints import attempt
from holdfast.runtime.savepoints.attempt import Again, Attempt
from holdfast.tasks.plan import Whereabouts
from holdfast.tasks.savepoints import CopiesReport, CopyTold

_FIRST = Whereabouts("0", 0, 101, 100)
_SECOND = Whereabouts("1", 1, 201, 200)
_WANTED = {("q", 0): _FIRST, ("q", 1): _SECOND}


def _attempt(timeout_s: float) -> Attempt:
    """One whose executors were all there when they were last looked for."""
    snapshots = SimpleNamespace(uri="file:///nowhere")
    services = SimpleNamespace(
        settings=SimpleNamespace(snapshots=snapshots, application_id="app"),
        cluster=SimpleNamespace(whereabouts=lambda: [_FIRST, _SECOND]),
    )
    return Attempt(cast("Any", services), [], "s", "", time.monotonic() + timeout_s)


def _answers(monkeypatch: pytest.MonkeyPatch, *rounds: list[CopiesReport]) -> None:
    """The executors' answers to each question, the last one again and again."""
    left = list(rounds)
    monkeypatch.setattr(attempt, "_POLL_S", 0.01)
    monkeypatch.setattr(
        attempt, "copies_told", lambda *_: left.pop(0) if len(left) > 1 else left[0]
    )


def _report(where: Whereabouts, *copies: CopyTold) -> CopiesReport:
    return CopiesReport(where, copies)


def test_a_worker_that_follows_another_on_its_volume_ends_the_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The executor lives, and no batch came since: the last look still names the old worker."""
    busy = [_report(_FIRST, CopyTold("q", 0)), _report(_SECOND, CopyTold("q", 1))]
    follows = _report(replace(_FIRST, worker_pid=102))
    _answers(monkeypatch, busy, [follows, busy[1]])
    with pytest.raises(Again, match="worker 101 of executor 0 has ended"):
        _attempt(5.0)._uploaded(_WANTED)


def test_all_copies_that_are_uploaded_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is uploaded counts, though its worker has ended before the others were."""
    manifest = cast("Any", SimpleNamespace())
    first, second = CopyTold("q", 0, manifest), CopyTold("q", 1, manifest)
    begun = [_report(_FIRST, first), _report(_SECOND, CopyTold("q", 1))]
    ended = [_report(replace(_FIRST, worker_pid=102)), _report(_SECOND, second)]
    _answers(monkeypatch, begun, ended)
    assert _attempt(5.0)._uploaded(_WANTED) == dict.fromkeys(_WANTED, manifest)

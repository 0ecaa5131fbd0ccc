"""What all checkers share: a checker takes evidence and gives one finding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TypeVar

from holdfast.judge.values import EXAMPLES_MAX, OpenTransaction
from holdfast.judge.verdict import Finding, Verdict

__all__ = ["Checker", "finding", "judge", "open_finding", "unjudged"]

E = TypeVar("E")
Checker = Callable[[E], Finding]


def judge(evidence: E, checkers: Sequence[Checker[E]]) -> tuple[Finding, ...]:
    """Every checker's finding; one that crashes found nothing, so its verdict is unknown."""
    findings = []
    for checker in checkers:
        try:
            findings.append(checker(evidence))
        except Exception as error:  # noqa: BLE001 - a broken checker must not hide the others
            fact = f"the checker crashed: {type(error).__name__}: {error}"
            findings.append(Finding(checker.__name__, Verdict.UNKNOWN, fact))
    return tuple(findings)


def finding(name: str, verdict: Verdict, fact: str, examples: Iterable[str]) -> Finding:
    """A finding with the first few of its examples."""
    return Finding(name, verdict, fact, tuple(islice(examples, EXAMPLES_MAX)))


def unjudged(name: str, reason: str) -> Finding:
    """The finding about what nobody recomputed."""
    return Finding(name, Verdict.UNKNOWN, reason or "it was not recomputed")


def open_finding(name: str, open_transactions: Sequence[OpenTransaction]) -> Finding:
    """The finding for topic partitions whose last stable offset stays behind their end."""
    fact = f"{len(open_transactions)} topic partitions with an open transaction"
    examples = [
        f"{t.topic}-{t.partition}: stable to {t.last_stable_offset}, end {t.end_offset}"
        for t in open_transactions
    ]
    return finding(name, Verdict.INVALID if examples else Verdict.VALID, fact, examples)

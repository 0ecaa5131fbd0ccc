"""A plan: the changes, their order, gain and risks.  A value with a hash.

`planner.py` makes it from a survey and a policy; `apply.py` carries it out if its preconditions
still hold.  A plan that was edited by hand no longer matches its hash and is refused.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from holdfast.compaction.runs import read_file
from holdfast.errors import Refused

__all__ = ["Change", "Cost", "PartitionPrediction", "Plan", "Precondition", "TopicPlan"]

PLAN_VERSION = 1


@dataclass(frozen=True)
class Change:
    """A topic setting: `before` None: the topic has no value of its own; `after` None: remove it.

    Attributes:
        value_before: the value in force before, wherever it was set; for people.
        why: one sentence.
    """

    name: str
    before: str | None
    after: str | None
    value_before: str = ""
    why: str = ""


@dataclass(frozen=True)
class Cost:
    """The cost of a changelog: bytes of one replica on disk, and seconds to restore all of it."""

    bytes: int
    restore_s: float

    def least(self, other: Cost) -> Cost:
        """The lower of the two; a value that is rounded twice may end up one above the original."""
        return Cost(min(self.bytes, other.bytes), min(self.restore_s, other.restore_s))


@dataclass(frozen=True)
class PartitionPrediction:
    """One partition: bytes and records now, and after one cleaning."""

    partition: int
    bytes_before: int
    bytes_after: int
    records_before: int
    records_after: int


@dataclass(frozen=True)
class Precondition:
    """The conditions that must still hold when the plan is applied.

    Attributes:
        topic_id: the topic is the same one.
        settings: the topic's own values of the settings that the plan changes; None: it has none.
    """

    topic_id: str
    settings: dict[str, str | None]


@dataclass(frozen=True)
class TopicPlan:
    """The plan of one topic.  A plan without changes is fine: `why` then gives the reason.

    Attributes:
        order: topics are done one at a time, the lowest first.
        changes: settings that stay.
        temporary: settings that hold only until the cleaner is done, then return to the value in
            `changes`, or else to their value before.
        roll: whether the active segment has to be rolled for the cleaner to reach its records.
        partitions: predictions, in the order in which they are looked at.
        before, after: the topic now, and after one cleaning; `steady` is its worst moment between
            two cleanings with the settings that stay.
        cleaner_read_bytes, cleaner_write_bytes, cleaner_s: predicted work of the cleaner.
        risks: one sentence each.
        why: one sentence.
        owner: the resource that keeps its settings; empty: the topic itself is changed.
        patch: a merge patch for that resource, `{"spec": {"config": …}}`, for the settings that
            stay; a setting that is removed is null in it.
    """

    topic: str
    order: int
    changes: tuple[Change, ...]
    temporary: tuple[Change, ...]
    roll: bool
    precondition: Precondition
    partitions: tuple[PartitionPrediction, ...]
    before: Cost
    after: Cost
    steady: Cost
    cleaner_read_bytes: int = 0
    cleaner_write_bytes: int = 0
    cleaner_s: float = 0.0
    risks: tuple[str, ...] = ()
    why: str = ""
    owner: str = ""
    patch: dict[str, Any] = field(default_factory=dict)

    @property
    def nothing(self) -> bool:
        """Whether the plan asks for neither a change nor a cleaning."""
        return not (self.changes or self.temporary)


@dataclass(frozen=True)
class Plan:
    """A plan for the topics of one survey.

    Attributes:
        survey_ms: when the survey was taken.
        policy: the policy as given, every key with its value.
        topics: in the order of `TopicPlan.order`; topics with nothing to do come last.
        advice: about brokers; Holdfast does none of it.
        unmet: what the policy asks for and no plan can reach, with numbers.
        hash: hash of all other fields; see `sealed`.
    """

    run: str
    cluster_id: str
    survey_ms: int
    policy: dict[str, Any]
    topics: tuple[TopicPlan, ...]
    advice: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    version: int = PLAN_VERSION
    hash: str = ""

    @property
    def nothing(self) -> bool:
        return all(topic.nothing for topic in self.topics)

    def sealed(self) -> Plan:
        """The same plan with its hash: 16 hex digits of SHA-256 over its JSON without one."""
        plain = _ADAPTER.dump_json(replace(self, hash=""))
        return replace(self, hash=hashlib.sha256(plain).hexdigest()[:16])

    def to_json(self) -> bytes:
        """Indented JSON."""
        return _ADAPTER.dump_json(self, indent=1)

    @staticmethod
    def read(path: Path) -> Plan:
        """The inverse of `to_json`, from a file.

        Raises:
            Refused: there is no file, it cannot be read, or its hash does not match.
        """
        try:
            plan = read_file(path, _ADAPTER, "plan", "run `holdfast compaction plan` again")
        except FileNotFoundError as error:
            raise Refused(
                f"There is no plan {path}.", action="run `holdfast compaction plan` first"
            ) from error
        if plan.hash != plan.sealed().hash:
            raise Refused(
                f"{path} says hash {plan.hash or '(none)'}, its content has {plan.sealed().hash}.",
                cause="it was edited by hand: what would be done is not what was approved",
                action="change the policy instead and run `holdfast compaction plan` again",
            )
        return plan


_ADAPTER = TypeAdapter(Plan)

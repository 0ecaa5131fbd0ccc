"""A plan: what to change, in which order, what it wins, what it risks.  A value, with a hash.

`planner.py` makes it from a survey and a policy; `apply.py` carries it out, if what it was made
from still holds.  A plan that was changed by hand has another hash than it says, and is refused.
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
    """A topic setting: `before` None means the topic has none of its own, `after` None: remove it.

    Attributes:
        value_before: what is in force before, whoever's it is; for people.
        why: one sentence.
    """

    name: str
    before: str | None
    after: str | None
    value_before: str = ""
    why: str = ""


@dataclass(frozen=True)
class Cost:
    """What a changelog costs: bytes of one replica on disk, and seconds to restore all of it."""

    bytes: int
    restore_s: float

    def least(self, other: Cost) -> Cost:
        """Of both the lower: what is rounded twice may end one above what it was."""
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
    """What must still be so when the plan is applied.

    Attributes:
        topic_id: the topic is the same one.
        settings: its own settings of those names that the plan changes; None: has none of its own.
    """

    topic_id: str
    settings: dict[str, str | None]


@dataclass(frozen=True)
class TopicPlan:
    """What happens to one topic.  Nothing at all is a fine plan: then `why` says why.

    Attributes:
        order: topics are done one at a time, the lowest first.
        changes: settings that stay.
        temporary: settings that hold only until the cleaner has been over the topic, then go back
            to what `changes` says, else to what they were.
        roll: whether the active segment has to be rolled for the cleaner to reach its records.
        partitions: predicted, in the order in which they are looked at.
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
        """Neither a change nor a cleaning is asked for."""
        return not (self.changes or self.temporary)


@dataclass(frozen=True)
class Plan:
    """A plan for the topics of one survey.

    Attributes:
        survey_ms: when the survey was taken.
        policy: as it was given, every key with its value.
        topics: in the order of `TopicPlan.order`; those with nothing to do last.
        advice: about brokers; nothing of it is done by Holdfast.
        unmet: what the policy asks for and no plan can reach, with numbers.
        hash: of everything else; see `sealed`.
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
        """The same with its hash: 16 hex digits of SHA-256 over its JSON without one."""
        plain = _ADAPTER.dump_json(replace(self, hash=""))
        return replace(self, hash=hashlib.sha256(plain).hexdigest()[:16])

    def to_json(self) -> bytes:
        """Indented JSON."""
        return _ADAPTER.dump_json(self, indent=1)

    @staticmethod
    def read(path: Path) -> Plan:
        """The inverse of `to_json`, from a file.

        Raises:
            Refused: there is none, it cannot be read, or its hash is not its own.
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

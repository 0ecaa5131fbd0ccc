"""What each changelog may cost, from what a policy asks of all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.compaction.plan.model import before_cleaning, core, cost, worst_moment
from holdfast.compaction.plan.plan import Cost
from holdfast.compaction.plan.policy import Policy
from holdfast.compaction.survey.facts import TopicFacts
from holdfast.compaction.survey.upkeep import Upkeep

__all__ = ["Limit", "cost_in_the_end", "limits"]

# A change aims lower than the limit, so that the next survey does not ask for another one.
_AIM = 0.95


@dataclass(frozen=True)
class Limit:
    """What one changelog may cost at its worst moment.

    Attributes:
        asked: the policy names a target; else this is only what is plainly too much.
    """

    bytes: float = math.inf
    restore_s: float = math.inf
    asked: bool = False

    def holds(self, now: Cost) -> bool:
        return now.bytes <= self.bytes and now.restore_s <= self.restore_s

    def aimed(self, then: Cost) -> bool:
        """Whether a change that leads there is enough."""
        return then.bytes <= self.bytes * _AIM and then.restore_s <= self.restore_s * _AIM


def limits(
    topics: Sequence[TopicFacts], free: Sequence[TopicFacts], policy: Policy
) -> dict[str, Limit]:
    """By topic, for those that may be changed.

    A budget is shared out in proportion to what each changelog needs, after those that may not be
    changed have theirs; while all of them stay within it, it limits none.

    Args:
        topics: all that were surveyed.
        free: those of them that may be changed.
    """
    need = {t.topic: cost(t, [core(p) for p in t.partitions]).bytes for t in free}
    if not policy.has_target:
        least = policy.min_gain_bytes  # so small a log is no trouble, however small its table
        return {t.topic: Limit(max(policy.growth_max * need[t.topic], least)) for t in free}
    restore_s = policy.target_restore_s or math.inf
    share = _share(topics, need, policy.disk_budget_bytes)
    return {t.topic: Limit(share * need[t.topic], restore_s, asked=True) for t in free}


def _share(topics: Sequence[TopicFacts], need: Mapping[str, int], budget: int) -> float:
    """How many times what it needs each changelog may take; infinite without a tight budget."""
    worst = {t.topic: cost_in_the_end(t, Upkeep.of(t)).bytes for t in topics}
    if not budget or sum(worst.values()) <= budget:
        return math.inf
    left = budget - sum(size for topic, size in worst.items() if topic not in need)
    return max(1.0, left / max(1, sum(need.values())))


def cost_in_the_end(topic: TopicFacts, upkeep: Upkeep) -> Cost:
    """The worst moment from now on, with these settings."""
    worst = [worst_moment(p, upkeep, core(p)) for p in topic.partitions]
    pairs = zip(topic.partitions, worst, strict=True)
    return cost(topic, [most.most(before_cleaning(p)) for p, most in pairs])

"""The faults, their times and their order: a pure function of a seed and of the request.

Every requested combination of component, fault and moment that makes sense comes once before any
comes again, and even a short schedule covers all components, faults and moments.  Three moments
need another fault just before theirs and follow it in one group: RECOVERY follows any fault, OPENED
a fault after which stores are opened again, RESTORING a fault after which stores have records to
replay (the loss of a volume if requested, else a killed executor, whose partitions move).
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.chaos.faults.words import Fault, Injection, Moment
from holdfast.errors import Refused
from holdfast.types.components import BROKER, DRIVER, EXECUTOR, QUERY, SERVER, STANDBY

__all__ = ["Asked", "Combination", "combinations", "follows", "groups", "most_in", "schedule"]

_WITHIN = frozenset({DRIVER, EXECUTOR, BROKER})  # components that take part in a commit
_TOGETHER = frozenset({Fault.KILL, Fault.DELETE, Fault.DELETE_NOW})
# These faults take their victims and the job through several steps of their own.
_UNAIMED = frozenset({Fault.SLOW, Fault.OLD_VOLUME, Fault.SWAP_VOLUMES, Fault.RECREATE_TOPIC})
_LEAST_S = 2.0  # no fault takes less time, including the wait before it and the recovery after it
_FOLLOWING = frozenset({Moment.RECOVERY, Moment.OPENED, Moment.RESTORING})


@dataclass(frozen=True)
class Asked:
    """A request for a schedule.

    Attributes:
        possible: by component, the faults that the target can inject.
        rounds: faults in all.
        executors: how many there are in a healthy job.
        aimed: whether there is a hook that holds state tasks.
        lasting_s: how long PAUSE and CUT_OFF last: longer than the transaction time-out.
        short_s: how long other faults that last are kept up.
        pause_s: least and most seconds between a recovery and the next fault.
    """

    components: tuple[str, ...]
    faults: tuple[Fault, ...]
    moments: tuple[Moment, ...]
    possible: Mapping[str, frozenset[Fault]]
    rounds: int
    executors: int = 2
    aimed: bool = True
    lasting_s: float = 15.0
    short_s: float = 8.0
    pause_s: tuple[float, float] = (1.0, 4.0)


@dataclass(frozen=True)
class Combination:
    """One kind of injection: component, fault and moment."""

    component: str
    fault: Fault
    moment: Moment
    count: int = 1

    @property
    def opens(self) -> bool:
        """Whether stores are opened again after it."""
        ends = self.fault.kills or self.fault is Fault.DELETE
        return ends and self.component in (DRIVER, EXECUTOR)

    @property
    def empties(self) -> bool:
        """Whether stores have records to replay after it."""
        return self.opens and self.component == EXECUTOR and self.count == 1


def follows(moment: Moment) -> bool:
    """Whether it comes before another fault is recovered from."""
    return moment in _FOLLOWING


def groups(injections: Sequence[Injection]) -> list[tuple[Injection, ...]]:
    """The schedule, cut before every fault that does not follow another one."""
    found: list[tuple[Injection, ...]] = []
    for injection in injections:
        if found and follows(injection.moment):
            found[-1] = (*found[-1], injection)
        else:
            found.append((injection,))
    return found


def combinations(asked: Asked) -> tuple[Combination, ...]:
    """Every requested combination that makes sense and is possible here, in a fixed order."""
    found = [
        Combination(component, fault, moment, count)
        for component in asked.components
        for fault in asked.faults
        if fault in asked.possible.get(component, frozenset())
        for moment in asked.moments
        if _sensible(component, fault, moment, aimed=asked.aimed)
        for count in _counts(component, fault, moment, asked.executors)
    ]
    leading = [c for c in found if not follows(c.moment)]
    return tuple(c for c in found if not follows(c.moment) or _leaders(c, leading))


def most_in(duration_s: float) -> int:
    """The highest number of faults that fit into this time."""
    return math.ceil(duration_s / _LEAST_S)


def schedule(seed: int, asked: Asked) -> tuple[Injection, ...]:
    """The injections, numbered from 0; a longer schedule begins with all of a shorter one.

    Raises:
        Refused: no requested combination makes sense or is possible here.
    """
    all_of_them = combinations(asked)
    if not all_of_them:
        raise Refused(
            f"Nothing of what was asked can be done: components {', '.join(asked.components)}; "
            f"faults {', '.join(asked.faults)}; moments {', '.join(asked.moments)}.",
            cause="recovery, restoring and opened follow another fault, which must be among the "
            "asked ones; the other aimed moments need the tests' hook",
            action="ask for the moment random as well, or for more faults",
        )
    # Two generators: the number of faults must not change the details of the first ones.
    details = random.Random(f"{seed} details")
    drawn = itertools.islice(_endless(random.Random(seed), all_of_them), asked.rounds)
    return tuple(_injection(number, c, details, asked) for number, c in enumerate(drawn))


def _endless(chance: random.Random, all_of_them: Sequence[Combination]) -> Iterator[Combination]:
    while True:
        yield from _evenly(chance, _chained(chance, all_of_them))


def _sensible(component: str, fault: Fault, moment: Moment, *, aimed: bool) -> bool:
    if moment is Moment.RECOVERY:
        # These faults wait until the job commits, which a fault not yet healed may prevent.
        waits = fault in (Fault.OLD_VOLUME, Fault.RECREATE_TOPIC)
        return not waits and component not in (STANDBY, QUERY)
    if moment.step is None:
        return True
    return aimed and component in _WITHIN and fault not in _UNAIMED


def _counts(component: str, fault: Fault, moment: Moment, executors: int) -> tuple[int, ...]:
    several = component == EXECUTOR and fault in _TOGETHER and moment is Moment.RANDOM
    return (1, 2) if several and executors > 1 else (1,)


def _chained(
    chance: random.Random, all_of_them: Sequence[Combination]
) -> list[tuple[Combination, ...]]:
    """Every combination once, each follower behind one that it may follow."""
    leading = [c for c in all_of_them if not follows(c.moment)]
    following = [c for c in all_of_them if follows(c.moment)]
    chance.shuffle(leading)
    chance.shuffle(following)
    following.sort(key=lambda c: (c.moment is Moment.RECOVERY, not c.opens))
    chains: list[tuple[Combination, ...]] = [(c,) for c in leading]
    for follower in following:
        leaders = _leaders(follower, all_of_them)
        fitting = [i for i, chain in enumerate(chains) if chain[-1] in leaders]
        if not fitting:  # every possible leader has a follower already: repeat one
            chains.append((chance.choice(_leaders(follower, leading)), follower))
            continue
        shortest = min(len(chains[i]) for i in fitting)
        at = chance.choice([i for i in fitting if len(chains[i]) == shortest])
        chains[at] = (*chains[at], follower)
    return chains


def _leaders(follower: Combination, among: Sequence[Combination]) -> list[Combination]:
    """The combinations that it may follow."""
    if follower.moment is Moment.RECOVERY:
        # When a standby is seen to have taken over, the job has recovered.
        return [c for c in among if c.component != STANDBY]
    if follower.moment is Moment.OPENED:
        return [c for c in among if c.opens]
    emptying = [c for c in among if c.empties]
    lost = [c for c in emptying if c.fault is Fault.LOSE_VOLUME]
    return lost or emptying


def _evenly(chance: random.Random, chains: list[tuple[Combination, ...]]) -> Iterator[Combination]:
    """All chains, at each turn one with the words least used so far.

    Chains with a fault that has not come yet are first: some faults have few combinations and would
    come late in a long list.
    """
    used: Counter[object] = Counter()
    left = list(chains)
    while left:
        weights = [
            (
                all(used["fault", c.fault] for c in chain),
                sum(used[word] for c in chain for word in _words(c)) / len(chain),
            )
            for chain in left
        ]
        least = min(weights)
        chain = left.pop(chance.choice([i for i, w in enumerate(weights) if w == least]))
        used.update(word for c in chain for word in _words(c))
        yield from chain


def _words(c: Combination) -> tuple[object, ...]:
    return ("component", c.component), ("fault", c.fault), ("moment", c.moment)


def _injection(number: int, c: Combination, chance: random.Random, asked: Asked) -> Injection:
    least, most = asked.pause_s
    delay_s = chance.uniform(least, most)
    if c.moment is Moment.RECOVERY:
        delay_s = chance.uniform(0.2, 3.0)
    elif follows(c.moment):
        delay_s = 0.0
    planned = Injection(number, c.component, c.fault, c.moment, c.count)
    return replace(
        planned,
        choice=round(chance.random(), 6),
        delay_s=round(delay_s, 3),
        duration_s=_duration(c, chance, asked),
    )


def _duration(c: Combination, chance: random.Random, asked: Asked) -> float:
    if not c.fault.lasts:
        # These need a restart by the nemesis where no supervisor restarts them.
        return round(chance.uniform(0.5, 4.0), 3) if c.component in (BROKER, SERVER) else 0.0
    base = asked.lasting_s if c.fault in (Fault.PAUSE, Fault.CUT_OFF) else asked.short_s
    return round(base * chance.uniform(1.0, 1.3), 3)

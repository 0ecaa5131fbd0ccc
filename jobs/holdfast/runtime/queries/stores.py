"""Work of executors on a query's stores beside its batches: opening, copying, rescaling."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from pyspark import SparkContext

from holdfast.errors import HoldfastError
from holdfast.runtime.cluster import Cluster
from holdfast.runtime.jvm.descriptions import stage
from holdfast.runtime.jvm.spark_internals import located, on_state_workers
from holdfast.runtime.queries.batches.retrying import Homes, stores_done, until_done
from holdfast.runtime.queries.batches.workers import AT_ONCE, by_location, side_by_side
from holdfast.runtime.queries.services import Services
from holdfast.tasks.bringing_in import Origin
from holdfast.tasks.heirs import shares
from holdfast.tasks.plan import Assigned, QueryPlan, TaskReport
from holdfast.tasks.rescaling.copier import Copied, Ending
from holdfast.tasks.savepoints import CopiesReport
from holdfast.tasks.worker import (
    Answer,
    bring_in_share,
    copied_for_savepoint,
    copy_for_savepoint,
    copy_share,
    end_share,
    open_partition,
)

__all__ = [
    "bring_in_stores",
    "copies_told",
    "copy_shares",
    "copy_stores",
    "end_shares",
    "open_stores",
]

_LOG = logging.getLogger(__name__)
_Work = Callable[[QueryPlan, int, Assigned], Answer]


def open_stores(plan: QueryPlan, cluster: Cluster, context: SparkContext) -> list[TaskReport]:
    """Step 0 on every state partition: fence, restore, and read the commit markers."""
    return _on_each(plan, cluster, context, "open", open_partition)


def copy_stores(
    plan: QueryPlan, cluster: Cluster, context: SparkContext, folder: str
) -> list[TaskReport]:
    """Copies every store for a savepoint, and begins to upload the copies."""
    return _on_each(plan, cluster, context, "copy", partial(copy_for_savepoint, folder=folder))


def _on_each(
    plan: QueryPlan, cluster: Cluster, context: SparkContext, doing: str, work: _Work
) -> list[TaskReport]:
    """Does something to every store where it is; see `stores_done`."""

    def attempt(pending: Sequence[int], where: Homes) -> list[Answer]:
        groups = by_location(pending, where)
        stage(context, f"{doing} the stores of {plan.query.id}")
        rdd = located(context, [location for location, _ in groups])
        of_group = partial(_elements, plan=plan, groups=[v for _, v in groups], work=work)
        return on_state_workers(rdd, of_group, range(len(groups)))

    return stores_done(plan, cluster, attempt)


def _elements(
    _index: int,
    elements: Iterable[int],
    *,
    plan: QueryPlan,
    groups: Sequence[Mapping[int, Assigned]],
    work: _Work,
) -> Iterator[Answer]:
    for task in elements:
        volumes = groups[task]
        yield from side_by_side(partial(_one, plan, volumes, work), volumes, AT_ONCE)


def _one(plan: QueryPlan, assigned: Mapping[int, Assigned], work: _Work, partition: int) -> Answer:
    return work(plan, partition, assigned[partition])


def copies_told(services: Services, folder: str) -> list[CopiesReport]:
    """How far the executors' copies for an attempt to make a savepoint are.

    A busy executor's question may be answered by another one, for itself.
    """
    context, executors = services.context, services.settings.placement.executors
    stage(context, "ask for the copies of a savepoint")
    locations = services.cluster.locations()
    ask = partial(_copied, state_dir=services.state_dir, executors=executors, folder=folder)
    found: list[CopiesReport] = on_state_workers(
        located(context, locations), ask, range(len(locations))
    )
    return found


def _copied(
    _index: int, elements: Iterable[int], *, state_dir: str, executors: int, folder: str
) -> Iterator[CopiesReport]:
    for _ in elements:
        yield copied_for_savepoint(state_dir, executors, folder)


def copy_shares(
    plan: QueryPlan,
    new: QueryPlan,
    places: Mapping[int, str],
    context: SparkContext,
    seconds: float,
) -> list[Copied | HoldfastError]:
    """Copies some of each share into the next generation, where its copier is.

    Args:
        places: Spark locations by the number of the share.
        seconds: for all shares of an executor together, about.
    """
    count = max(Counter(places.values()).values())
    work = partial(copy_share, plan, new, seconds=seconds / count)
    return _on_shares(plan, places, context, "copy the shares", work)


def end_shares(
    plan: QueryPlan,
    new: QueryPlan,
    places: Mapping[int, str],
    context: SparkContext,
    ending: Ending,
) -> list[Copied | HoldfastError]:
    """Copies the rest of each share, with the commit markers that begin the next generation."""
    work = partial(end_share, plan, new, ending=ending)
    return _on_shares(plan, places, context, "end the shares", work)


def _on_shares(
    plan: QueryPlan,
    places: Mapping[int, str],
    context: SparkContext,
    doing: str,
    work: Callable[[int], Copied | HoldfastError],
) -> list[Copied | HoldfastError]:
    locations = sorted(set(places.values()))
    groups = [sorted(n for n, place in places.items() if place == one) for one in locations]
    stage(context, f"{doing} of {plan.query.id}")
    done = partial(_shares_done, groups=groups, work=work)
    found: list[Copied | HoldfastError] = on_state_workers(
        located(context, locations), done, range(len(groups))
    )
    return found


def _shares_done(
    _index: int,
    elements: Iterable[int],
    *,
    groups: Sequence[Sequence[int]],
    work: Callable[[int], Copied | HoldfastError],
) -> Iterator[Copied | HoldfastError]:
    for element in elements:
        for number in groups[element]:
            yield work(number)


def bring_in_stores(
    plan: QueryPlan, origin: Origin, cluster: Cluster, context: SparkContext
) -> None:
    """Writes the rows of a savepoint into the query's changelog, share by share.

    Raises:
        HoldfastError: see `tasks.bringing_in.bring_in`, or retries ran out.
    """
    count = len(shares(len(origin.stores), plan.state_partitions))

    def attempt(pending: Sequence[int]) -> list[Answer]:
        locations = cluster.locations()
        places = [locations[share % len(locations)] for share in pending]
        stage(context, f"bring in the savepoint of {plan.query.id}")
        work = partial(_brought, plan=plan, origin=origin, numbers=tuple(pending))
        return on_state_workers(located(context, places), work, range(len(pending)))

    done = until_done(plan, cluster, range(count), attempt)
    _LOG.info(
        "%s: %d rows brought in from %s",
        plan.query.id, sum(report.rows for report in done), origin.reference,
    )  # fmt: skip


def _brought(
    _index: int,
    elements: Iterable[int],
    *,
    plan: QueryPlan,
    origin: Origin,
    numbers: Sequence[int],
) -> Iterator[Answer]:
    for element in elements:
        yield bring_in_share(plan, origin, numbers[element])

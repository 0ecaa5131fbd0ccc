"""The state of a Python worker: the volume it has claimed and its open state tasks.

Spark gives an executor one core and keeps its Python worker, so stores stay open between
micro-batches.  A state task only runs on the volume that the driver assigned it to; elsewhere it
answers `NotOwner` and the driver decides (wait for the owner, or reassign).
Errors of the Holdfast tree are returned as answers, so that Spark does not retry them.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import psutil
import pyarrow as pa

from holdfast.config.settings import StateSettings
from holdfast.errors import HoldfastError, NotOwner, OffsetOverlap, StoreUnavailable
from holdfast.state import place_of_stores, survey_positions
from holdfast.state.volume import Volume, claim, claim_ordinal
from holdfast.tasks.aggregates.user import load_functions
from holdfast.tasks.bringing_in import Origin, bring_in
from holdfast.tasks.heirs import shares
from holdfast.tasks.pack.packing import from_arrow
from holdfast.tasks.plan import (
    Assigned,
    Batch,
    QueryPlan,
    StandbyDuties,
    StandbyReport,
    StoreSurvey,
    StreamPlan,
    TaskReport,
    Whereabouts,
)
from holdfast.tasks.rescaling.copier import Copied, Copier, Ending
from holdfast.tasks.savepoints import CopiesReport, SavepointCopies
from holdfast.tasks.snapshots import Snapshots
from holdfast.tasks.standbys import Standbys
from holdfast.tasks.state_task import StateTask
from holdfast.tasks.stream_task import StreamTask
from holdfast.types.ids import query_of

__all__ = [
    "Answer",
    "bring_in_share",
    "copied_for_savepoint",
    "copy_for_savepoint",
    "copy_share",
    "end_share",
    "keep_standbys",
    "open_partition",
    "process_partition",
    "process_stream",
    "survey",
]

Answer = TaskReport | HoldfastError

_LOG = logging.getLogger(__name__)
_CLAIM_WAIT_S = 10.0
_NO_VOLUME = -1
# Spark sets these in executors on Kubernetes only.
_POD_NAME, _POD_IP = "SPARK_EXECUTOR_POD_NAME", "SPARK_EXECUTOR_POD_IP"
_NODE_NAME = "HOLDFAST_NODE_NAME"  # the chart sets it
_READY_FILE = "EXECUTOR_READY_FILE"  # the pod's entry point sets it, and removes the file
_claiming = threading.Lock()
_state_tasks: dict[tuple[str, str, int], StateTask] = {}
_stream_tasks: dict[tuple[str, str, int], StreamTask] = {}
_standbys = Standbys()
_snapshots = Snapshots()
_copies = SavepointCopies()
_copiers: dict[tuple[str, str, int], Copier] = {}


def _volume(state_dir: str, executors: int) -> Volume:
    with _claiming:  # state partitions are opened in parallel
        return _claimed(state_dir, executors)


@cache
def _claimed(state_dir: str, executors: int) -> Volume:
    """This process's volume; claimed once, freed by the operating system when the process ends.

    A pod of a StatefulSet only has the volume of its ordinal.
    """
    pod = re.fullmatch(r".*-(\d+)", os.environ.get(_POD_NAME, ""))
    if pod:
        return claim_ordinal(Path(state_dir), int(pod.group(1)), wait_s=_CLAIM_WAIT_S)
    return claim(Path(state_dir), expected=executors, wait_s=_CLAIM_WAIT_S)


@cache
def _processes() -> tuple[str, int, int]:
    """(executor id, this worker's pid, its executor JVM's pid)."""
    executor = os.environ.get(_POD_NAME, "")
    if not executor:  # standalone mode names the executor only in its log URL
        match = re.search(r"executorId=([^&]+)", os.environ.get("SPARK_LOG_URL_STDERR", ""))
        executor = match.group(1) if match else "driver"
    jvms = [p.pid for p in psutil.Process().parents() if "java" in p.name()]
    return executor, os.getpid(), jvms[0] if jvms else 0


def _where(ordinal: int) -> Whereabouts:
    executor, worker_pid, jvm_pid = _processes()
    host, node = os.environ.get(_POD_IP, ""), os.environ.get(_NODE_NAME, "")
    return Whereabouts(executor, ordinal, worker_pid, jvm_pid, host, node)


def survey(state_dir: str, executors: int, application_id: str) -> StoreSurvey:
    """The stores on this executor's volume, and their changelog positions."""
    volume = _volume(state_dir, executors)
    still_open = {
        (name, p): task.position
        for (app, name, p), task in _state_tasks.items()
        if app == application_id
    }
    followed = {(s.state_name, s.partition): s.position for s in _standbys.states()}
    held = followed | still_open
    positions = survey_positions(volume, application_id, held) | held
    _ready()
    return StoreSurvey(_where(volume.ordinal), positions)


def _ready() -> None:
    """Tells the pod's readiness probe that this executor answers the driver."""
    if file := os.environ.get(_READY_FILE):
        Path(file).touch()


def keep_standbys(
    duties: StandbyDuties, state_dir: str, executors: int, application_id: str
) -> StandbyReport:
    """Keeps the standbys wanted on this executor's volume, and no others, from now on.

    Closes the state tasks that another executor owns by now.  A state task that a later placement
    than that of the duties has named stays as it is.
    """
    volume = _volume(state_dir, executors)
    later = {
        key[1:]
        for key, task in _state_tasks.items()
        if key[0] == application_id and task.placement.is_after(duties.placement)
    }
    wanted = duties.wanted.get(volume.ordinal, frozenset()) - later
    owned = duties.owned.get(volume.ordinal, frozenset()) | later
    plans = {plan.query.id: plan for plan in duties.plans.values()}
    mine = [
        key
        for key, task in _state_tasks.items()
        if key[0] == application_id and task.query_id in plans
    ]
    for key in mine:
        if key[1:] not in owned:
            _close(key)
    for plan in duties.plans.values():
        load_functions(plan.settings.functions)
    spare = {
        key: duties.plans.get(key[0], plans[query_of(key[0])])
        for key in _stores(duties, volume, application_id) - wanted - owned
        if query_of(key[0]) in plans
    }
    _standbys.keep({key: duties.plans[key[0]] for key in wanted}, spare, volume, owned)
    return StandbyReport(_where(volume.ordinal), _standbys.states())


def _stores(
    duties: StandbyDuties, volume: Volume, application_id: str
) -> AbstractSet[tuple[str, int]]:
    """The stores of a job that this executor may find to be spare."""
    state = next((plan.settings.state for plan in duties.plans.values()), StateSettings())
    place = place_of_stores(state, volume, application_id)
    try:
        found = {(name, p) for app, name, p in place.stores() if app == application_id}
    except StoreUnavailable as error:
        _LOG.info("Nobody looks for spare stores: %s", error.fact)
        return frozenset()
    # In a database, the stores of states that still count belong to other executors.
    return {key for key in found if place is volume or key[0] not in duties.plans}


def open_partition(plan: QueryPlan, partition: int, assigned: Assigned) -> Answer:
    """Step 0 for one state partition.

    An open task is reopened: another executor may have owned the state partition in between, and
    only step 0 finds its position.
    """
    _close((plan.settings.application_id, plan.state_name, partition))
    return _answer(plan, partition, assigned, lambda task: task.describe())


def copy_for_savepoint(plan: QueryPlan, partition: int, assigned: Assigned, folder: str) -> Answer:
    """Copies one state partition as it is now, and begins to upload the copy.

    One that has committed nothing has nothing to be copied.
    """

    def work(task: StateTask) -> TaskReport:
        if task.marker is not None:
            volume = _volume(plan.state_dir, plan.settings.placement.executors)
            _copies.copy(plan, partition, task.store, volume, folder)
        return task.describe()

    return _answer(plan, partition, assigned, work)


def copied_for_savepoint(state_dir: str, executors: int, folder: str) -> CopiesReport:
    """How far the copies of this executor for an attempt to make a savepoint are."""
    return CopiesReport(_where(_volume(state_dir, executors).ordinal), _copies.told(folder))


def bring_in_share(plan: QueryPlan, origin: Origin, number: int) -> Answer:
    """Brings in one of the `shares` of a query; the report's `partition` is its number."""
    try:
        load_functions(plan.settings.functions)
        volume = _volume(plan.state_dir, plan.settings.placement.executors)
        share = shares(len(origin.stores), plan.state_partitions)[number]
        rows = bring_in(plan, origin, share, volume)
        return TaskReport(number, _where(volume.ordinal), rows=rows)
    except HoldfastError as error:
        return error


def copy_share(
    plan: QueryPlan, new: QueryPlan, number: int, seconds: float
) -> Copied | HoldfastError:
    """Copies some of a share into the next generation, see `Copier.copy`."""
    return _copying(plan, new, number, lambda copier: copier.copy(seconds))


def end_share(
    plan: QueryPlan, new: QueryPlan, number: int, ending: Ending
) -> Copied | HoldfastError:
    """Copies the rest of a share, see `Copier.end`."""

    def work(copier: Copier) -> Copied:
        copier.end(ending)
        return Copied(number, 0)

    ended = _copying(plan, new, number, work)
    _stop_copying(new, number)
    return ended


def _copying(
    plan: QueryPlan, new: QueryPlan, number: int, work: Callable[[Copier], Copied]
) -> Copied | HoldfastError:
    key = (plan.settings.application_id, new.state_name, number)
    for other in [k for k in _copiers if k[0] == key[0] and query_of(k[1]) == plan.query.id]:
        if other[1] != new.state_name:  # of an attempt that was given up
            _copiers.pop(other).close()
    try:
        if key not in _copiers:
            share = shares(plan.state_partitions, new.state_partitions)[number]
            _copiers[key] = Copier(plan, new, share, number)
        return work(_copiers[key])
    except HoldfastError as error:
        _stop_copying(new, number)
        return error
    except BaseException:
        _stop_copying(new, number)
        raise


def _stop_copying(new: QueryPlan, number: int) -> None:
    copier = _copiers.pop((new.settings.application_id, new.state_name, number), None)
    if copier is not None:
        copier.close()


def process_partition(
    plan: QueryPlan,
    partition: int,
    assigned: Assigned,
    batch: Batch,
    payload: Sequence[bytes | pa.Buffer],
) -> Answer:
    """Steps 0 to 5 for one state partition and batch; `payload` is Arrow IPC record batches."""

    def work(task: StateTask) -> TaskReport:
        return task.process(batch, from_arrow(payload, task.schema))

    return _answer(plan, partition, assigned, work)


def _answer(
    plan: QueryPlan,
    partition: int,
    assigned: Assigned,
    work: Callable[[StateTask], TaskReport],
) -> Answer:
    key, began = (plan.settings.application_id, plan.state_name, partition), time.time()
    try:
        load_functions(plan.settings.functions)
        volume = _volume(plan.state_dir, plan.settings.placement.executors)
        if volume.ordinal != assigned.volume:
            _close(key)
            return _not_owner(plan, partition, assigned.volume, volume.ordinal)
        open_task = _state_tasks.get(key)
        if open_task is not None:
            open_task.placement = assigned.placement
            with suppress(OffsetOverlap):  # of another owner's commits: step 0 tells
                return replace(work(open_task), snapshot=_snapshots.state(key), began_s=began)
            _close(key)
        task = StateTask(plan, partition, volume, _where(volume.ordinal))
        task.placement = assigned.placement
        _state_tasks[key] = task
        opened = task.open(assigned.position, _standbys.take(plan.state_name, partition))
        _snapshots.follow(plan, partition, task.store, volume)
        worked = replace(work(task), snapshot=_snapshots.state(key), began_s=began)
        return _with_restore(opened, worked)
    except HoldfastError as error:
        _close(key)
        return error
    except BaseException:
        _close(key)
        raise


def _with_restore(opened: TaskReport, worked: TaskReport) -> TaskReport:
    """The report of the work plus that of opening the store before it."""
    return replace(
        worked,
        opened=True,
        restored_records=opened.restored_records,
        restored_bytes=opened.restored_bytes,
        restore_seconds=opened.restore_seconds,
        restore_reason=opened.restore_reason,
    )


def _not_owner(plan: QueryPlan, partition: int, assigned: int, here: int) -> NotOwner:
    return NotOwner(
        f"{plan.query.id} state partition {partition} belongs to volume {assigned}, "
        f"this executor has volume {here}.",
        cause="its executor is gone or too busy, and Spark sent the task elsewhere",
        action="none: the driver waits for the owner or reassigns the partition",
    )


def _close(key: tuple[str, str, int]) -> None:
    task = _state_tasks.pop(key, None)
    if task is None:
        return
    _snapshots.leave(key)
    try:
        task.close()
    except HoldfastError as error:
        _LOG.warning("Closing %s partition %s: %s", key[1], key[2], error)


def process_stream(
    plan: StreamPlan,
    topic_partition: int,
    start: int,
    end: int,
    read: Callable[[], Iterable[pa.RecordBatch]],
) -> Answer:
    """One topic partition's share of a stateless batch; `read` gives its decoded records."""
    key, began = (plan.settings.application_id, plan.query.id, topic_partition), time.time()
    try:
        load_functions(plan.settings.functions)
        open_task = _stream_tasks.get(key)
        if open_task is not None and open_task.fits(plan):
            with suppress(OffsetOverlap):  # of another owner's commits: step 0 tells
                return replace(open_task.process(start, end, read), began_s=began)
        _close_stream(key)
        task = StreamTask(plan, topic_partition, _where(_NO_VOLUME))
        _stream_tasks[key] = task
        task.open()
        return replace(task.process(start, end, read), began_s=began)
    except HoldfastError as error:
        _close_stream(key)
        return error
    except BaseException:  # its transaction may be open
        _close_stream(key)
        raise


def _close_stream(key: tuple[str, str, int]) -> None:
    task = _stream_tasks.pop(key, None)
    if task is not None:
        task.close()

"""The tasks that take a job's lock and give it back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
from airflow.sdk import BaseOperator, BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout

from holdfast_airflow import environment
from holdfast_airflow.locks.file import FileLock
from holdfast_airflow.locks.held import Holder, JobLock, LockUnavailable
from holdfast_airflow.locks.lease import LeaseLock
from holdfast_airflow.operator import REASON, request_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from holdfast_airflow.locks.held import Held
    from holdfast_airflow.request import Request

__all__ = ["RUNS_AT_ONCE", "LockJobSensor", "UnlockJobOperator", "lock_job", "unlock_job"]

RUNS_AT_ONCE = 64
"""Runs of one DAG at a time; those that wait for a lock count, too."""

_ALIVE = ["queued", "running"]
_NO_LIMIT = timedelta(days=9)


class LockJobSensor(BaseSensorOperator):
    """Waits, without a worker, until no other run changes the job, and takes its lock.

    A lock whose run has ended is taken over: Airflow itself says whether it runs.  The run of
    another Airflow has it until its time is over.

    Args:
        named_by: the task whose XCom has the name of the job as `job`, if the param `name` may be
            another's.
    """

    ui_color = "#e8f4ea"

    def __init__(self, *, named_by: str = "", **kwargs: Any) -> None:
        super().__init__(mode="reschedule", **kwargs)
        self.named_by = named_by
        self._other = ""

    def execute(self, context: Context) -> Any:
        minutes = context["params"]["lock_timeout_minutes"]
        self.timeout = minutes * 60
        try:
            return super().execute(context)
        except AirflowSensorTimeout:
            waited = f"{self._other} This run waited for {minutes} minutes."
            raise _failure(context, waited) from None
        except LockUnavailable as error:
            raise _failure(context, str(error)) from error

    def poke(self, context: Context) -> PokeReturnValue:
        job = _job(context, self.named_by)
        lock, me = _lock(context, job), _me(context)
        held = lock.read()
        if held and not held.holder.same_run(me) and not self._ended(held, context):
            self._other = (
                f"Another run changes the job {job}: {held.holder}. Wait for it, or stop it; if "
                f"there is no such run any more: {lock.by_hand}"
            )
            self.log.info("%s", self._other)
            return PokeReturnValue(False)
        taken = lock.take(me, held)
        self._other = self._other or f"Other runs were quicker to take the job {job} each time."
        return PokeReturnValue(taken, {"job": job} if taken else None)

    def _ended(self, held: Held, context: Context) -> bool:
        holder, task = held.holder, context["ti"]
        if holder.expired:
            return True
        known = task.get_dr_count(dag_id=holder.dag, run_ids=[holder.run])
        alive = task.get_dr_count(dag_id=holder.dag, run_ids=[holder.run], states=_ALIVE)
        return bool(known and not alive)


class UnlockJobOperator(BaseOperator):
    """Gives the job's lock back, if this run has it.

    Args:
        lock: the task that took it.
    """

    ui_color = "#e8f4ea"

    def __init__(self, *, lock: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lock = lock

    def execute(self, context: Context) -> None:
        lock = _lock(context, _job(context, self.lock))
        held = lock.read()
        if held and held.holder.same_run(_me(context)):
            lock.free(held)


def lock_job(named_by: str = "") -> LockJobSensor:
    """The task that takes the lock, in the current DAG."""
    return LockJobSensor(task_id="lock_job", named_by=named_by, poke_interval=10)


def unlock_job(lock: LockJobSensor) -> UnlockJobOperator:
    """The task that gives it back, also if the run is stopped: the teardown of `lock`."""
    unlock = UnlockJobOperator(task_id="unlock_job", lock=lock.task_id)
    unlock.as_teardown(setups=lock)
    return unlock


def _failure(context: Context, why: str) -> AirflowFailException:
    context["ti"].xcom_push(key=REASON, value=why)
    return AirflowFailException(why)


def _job(context: Context, named_by: str) -> str:
    if not named_by:
        return request_of(context).name
    return str(context["ti"].xcom_pull(task_ids=named_by)["job"])


def _me(context: Context) -> Holder:
    now = datetime.now(UTC)
    dag = context["dag"]
    return Holder(dag.dag_id, context["run_id"], now, now + (dag.dagrun_timeout or _NO_LIMIT))


def _lock(context: Context, job: str) -> JobLock:
    request: Request = request_of(context)
    if request.local:
        return FileLock(Path(request.params["home"] or environment.home()).absolute(), job)
    api = KubernetesHook(conn_id=KubernetesHook.default_conn_name).api_client
    return LeaseLock(api, request.namespace, job)

"""Waits until a job is ready and has caught up with its sources."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from holdfast_airflow import environment
from holdfast_airflow.operator import REASON, request_of
from holdfast_airflow.request import Request

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["CaughtUpSensor"]

# States of a deployment that nothing will restart.  A pod is always restarted.
_ENDED = {"absent", "refused", "stopped"}
_ANSWER_S, _PAUSE_S = 10.0, 1.0


class CaughtUpSensor(BaseSensorOperator):
    """Waits until the job has read its sources, mostly without a worker slot.

    Fails early, with the reason, if the job has failed or its driver is silent.

    Args:
        patience_s: how long it polls before it releases its slot; a poll costs less than the start
            of a task.
        silence_s: how long a driver may be silent; a restarted one answers within a minute.
    """

    ui_color = "#e8f4ea"

    def __init__(self, *, patience_s: float = 5.0, silence_s: float = 120.0, **kwargs: Any) -> None:
        super().__init__(mode="reschedule", **kwargs)
        self.patience_s = patience_s
        self.silence_s = silence_s
        self._stopped = False

    def execute(self, context: Context) -> Any:
        self.timeout = context["params"]["catch_up_timeout_minutes"] * 60
        try:
            return super().execute(context)
        except AirflowException as error:
            context["ti"].xcom_push(key=REASON, value=str(error))
            raise
        except KeyboardInterrupt:
            raise AirflowFailException("The wait was stopped.") from None

    def on_kill(self) -> None:
        self._stopped = True

    def poke(self, context: Context) -> PokeReturnValue:
        request = request_of(context)
        deadline = time.monotonic() + self.patience_s
        while not (found := self._look(request)).is_done and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        return found

    def _look(self, request: Request) -> PokeReturnValue:
        if self._stopped and request.local:
            raise AirflowFailException("The wait was stopped.")
        status = self._status(request)
        state, lag = status.get("state"), status.get("lag")
        behind = "unknown" if lag is None else f"{lag:,} records"
        why = f" ({status['reason']})" if status.get("reason") else ""
        self.log.info("%s is %s%s; lag: %s", request.name, state, why, behind)
        if request.local and state in _ENDED:
            raise AirflowFailException(f"The job {request.name} is {state}{why}.")
        done = bool(status.get("ready") and status.get("caught_up"))
        level = {"state": state, "lag": lag, "rows": _rows(status)}
        return PokeReturnValue(done, level if done else None)

    def _status(self, request: Request) -> dict[str, Any]:
        deadline = time.monotonic() + self.silence_s
        while True:
            try:
                return _ask_process(request) if request.local else _ask_driver(request)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                if time.monotonic() > deadline:
                    raise AirflowFailException(
                        f"The job {request.name} has not reported its status for "
                        f"{self.silence_s:.0f} s: {error}. Its driver's log says why."
                    ) from error
                self.log.info("No answer from %s: %s", request.name, error)
            time.sleep(_PAUSE_S)


def _rows(status: dict[str, Any]) -> dict[str, int]:
    """Rows by table, from the command's answer or from the driver's own."""
    if "rows" in status:
        return dict(status["rows"])
    queries = status.get("queries", {}).values()
    return {
        query["sink"]: sum(part["rows"] for part in query["state_partitions"])
        for query in queries
        if query.get("state_partitions")
    }


def _ask_driver(request: Request) -> dict[str, Any]:
    url = environment.status_url(request.name, request.namespace)
    with urllib.request.urlopen(url, timeout=_ANSWER_S) as answer:  # noqa: S310 - the operator's own
        status: dict[str, Any] = json.load(answer)
    return status


def _ask_process(request: Request) -> dict[str, Any]:
    command = [environment.command(), "status", *request.release_arguments(), "--json"]
    answer = subprocess.run(
        command,
        env=environment.child_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    status: dict[str, Any] = json.loads(answer.stdout)
    return status

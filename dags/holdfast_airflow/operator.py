"""The operator of every step: `holdfast` in a pod, or as a process on this machine."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.providers.cncf.kubernetes.utils.container import get_container_termination_message
from airflow.providers.cncf.kubernetes.utils.xcom_sidecar import PodDefaults
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    TaskDeferred,
)
from kubernetes.client import models as k8s

from holdfast_airflow import environment, pods
from holdfast_airflow.process import Elapsed, Process
from holdfast_airflow.request import InvalidRequest, Request

if TYPE_CHECKING:
    from airflow.sdk import Context

    from holdfast_airflow.steps import Step

__all__ = [
    "REASON",
    "HoldfastOperator",
    "LeftOutOperator",
    "RollBackOperator",
    "RunFolderOperator",
    "request_of",
]

REASON = "reason"
"""XCom key for the reason of a failed task."""

_INTERRUPTED = 130
_LOG_EVERY_S = 10


def request_of(context: Context) -> Request:
    """The request in a run's params.

    Raises:
        AirflowFailException: the params make no sense.
    """
    try:
        return Request.of(context["params"], context.get("run_id") or "")
    except InvalidRequest as error:
        raise _failure(context, str(error), final=True) from error


class HoldfastOperator(KubernetesPodOperator):
    """Runs a step on the target of the run's params: `target` kubernetes or local.

    The step's JSON is the task's XCom.  A refusal (exit status 2) fails the task at once, any other
    failure may be retried; both leave the reason as XCom `reason`.

    Where Airflow defers (its setting `operators.default_deferrable`, or `deferrable`), no worker
    waits for a pod; a process of this machine needs its worker.

    Args:
        step: what to run.
    """

    ui_color = "#e8f4ea"

    def __init__(self, *, step: Step, **kwargs: Any) -> None:
        volume, mount = pods.scratch()
        super().__init__(
            do_xcom_push=True,
            service_account_name=step.service_account,
            automount_service_account_token=step.token,
            security_context=pods.pod_security(),
            container_security_context=pods.container_security(),
            xcom_sidecar_container_security_context=pods.container_security(),
            container_resources=pods.resources("100m", "256Mi", "1Gi"),
            volumes=[volume],
            volume_mounts=[mount],
            image_pull_policy="IfNotPresent",
            termination_grace_period=step.grace_s,
            # The end of the log has the reason of a command's failure.
            termination_message_policy="FallbackToLogsOnError",
            log_pod_spec_on_failure=False,
            container_name_log_prefix_enabled=False,
            on_finish_action="delete_pod",
            # The triggerer reads the log of a pod that no worker waits for.
            logging_interval=_LOG_EVERY_S,
            **kwargs,
        )
        self.step = step
        self._process: Process | None = None

    def execute(self, context: Context) -> Any:
        request = self.asked(context)
        began, how = time.monotonic(), "ended"
        self.log.info("%s begins, %s.", self._place(), _where(request))
        try:
            if request.local:
                return self._run_process(request, context)
            self.prepare_pod(request)
            return self._run_pod(context, lambda: super(HoldfastOperator, self).execute(context))
        except TaskDeferred:
            how = "goes on without a worker"
            raise
        finally:
            self.log.info("%s %s after %.1f s.", self.task_id, how, time.monotonic() - began)

    def trigger_reentry(self, context: Context, event: dict[str, Any]) -> Any:
        """Goes on after a wait without a worker: the pod has ended, or has more to tell."""
        reenter = super().trigger_reentry
        return self._run_pod(context, lambda: reenter(context, event))

    def _place(self) -> str:
        """Its name, and its place among the tasks of its DAG."""
        if not self.has_dag():  # type: ignore[no-untyped-call]  # Airflow's, without annotations
            return self.task_id
        order = self.dag.topological_sort()  # type: ignore[no-untyped-call]  # the same
        tasks = [task.task_id for task in order]
        return f"{self.task_id}, task {tasks.index(self.task_id) + 1} of {len(tasks)},"

    def asked(self, context: Context) -> Request:
        """The request for this task.

        Raises:
            AirflowFailException: the params make no sense.
        """
        return request_of(context)

    def on_kill(self) -> None:
        if self._process is not None:
            self._process.stop()
        else:
            super().on_kill()

    def prepare_pod(self, request: Request) -> None:
        """Set the pod's template for `request`."""
        variables, volumes, mounts = pods.kafka_access(request.kafka_values())
        plain = {
            "HOME": pods.SCRATCH,
            "HOLDFAST_HOME": f"{pods.SCRATCH}/holdfast",
            **_script_environment(
                "holdfast", request, f"{PodDefaults.XCOM_MOUNT_PATH}/return.json"
            ),
        }
        # The name may be a table's, which is not valid for a pod.
        self.name = f"{request.name.lower().replace('_', '-')}-{self.step.name}"
        self.namespace = request.namespace
        self.image = request.image
        self.labels = {
            "app.kubernetes.io/name": "holdfast-task",
            "app.kubernetes.io/managed-by": "airflow",
            "holdfast/job": request.name,
        }
        self.cmds = ["tini", "--", "bash", "-c", self.step.script, "holdfast"]
        self.arguments = self.step.arguments(request)
        if self.step.asker:
            more = pods.serve_access(request.serve_values())
            variables, volumes = [*variables, *more[0]], [*volumes, *more[1]]
            mounts = [*mounts, *more[2]]
        self.env_vars = [k8s.V1EnvVar(name=key, value=plain[key]) for key in plain] + variables
        self.volumes = [*self.volumes, *volumes]
        self.volume_mounts = [*self.volume_mounts, *mounts]

    def build_pod_request_obj(
        self, context: Context | None = None, *, dry_run: bool = False
    ) -> k8s.V1Pod:
        pod = super().build_pod_request_obj(context, dry_run=dry_run)
        for container in pod.spec.containers:
            if container.name == PodDefaults.SIDECAR_CONTAINER_NAME:
                self._adapt_sidecar(container)
        return pod

    def _adapt_sidecar(self, sidecar: k8s.V1Container) -> None:
        # The provider's default would be one more image from one more registry.
        if sidecar.image == PodDefaults.SIDECAR_CONTAINER.image:
            sidecar.image = self.image
            sidecar.image_pull_policy = self.image_pull_policy
        # It ignores SIGTERM, so the pod's end would take the whole grace period.
        sidecar.command = ["sh", "-c", PodDefaults.XCOM_CMD.replace(" INT;", " INT TERM;")]
        if sidecar.resources == PodDefaults.SIDECAR_CONTAINER.resources:
            sidecar.resources = pods.resources("1m", "10Mi", "32Mi")

    def _run_pod(self, context: Context, run: Callable[[], Any]) -> Any:
        try:
            return run()
        except (AirflowFailException, AirflowSkipException):
            raise
        except AirflowException as error:
            status = self._exit_status()
            if status is None:  # the pod was lost, or never ran
                raise _failure(context, str(error), final=False) from error
            pod = self.remote_pod or self.pod
            message = get_container_termination_message(pod, self.base_container_name)
            raise self._refusal(context, status, str(message or "")) from None

    def _exit_status(self) -> int | None:
        pod = self.remote_pod or self.pod
        for container in (pod.status.container_statuses if pod else None) or []:
            if container.name == self.base_container_name and container.state.terminated:
                return int(container.state.terminated.exit_code)
        return None

    def _run_process(self, request: Request, context: Context) -> Any:
        with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
            outcome = Path(folder, "outcome.json")
            own = _script_environment(environment.command(), request, str(outcome))
            script = ["bash", "-c", self.step.script, "holdfast", *self.step.arguments(request)]
            self._process = Process(script, {**environment.child_environment(), **own})
            try:
                status = self._process.follow(Elapsed(self.log.info).tell)
            except KeyboardInterrupt:
                status = _INTERRUPTED
            # A user who stops a local run (Ctrl-C) does not want a retry.
            if status == _INTERRUPTED or self._process.stopped:
                raise _failure(context, f"{self.step.name} was stopped.", final=True)
            if status != 0:
                raise self._refusal(context, status, self._process.tail())
            return json.loads(outcome.read_text("utf-8"))

    def _refusal(self, context: Context, status: int, output: str) -> AirflowException:
        why = f"{self.step.name} ended with status {status}. {_reason(output)}"
        return _failure(context, why, final=self.step.final(status))


class RunFolderOperator(HoldfastOperator):
    """A step whose files the next steps of the run read: all pods of the run share a volume.

    Args:
        claim: the volume claim.
        folder: its mount path in a pod.
        begun_by: the task whose success this step requires, if any.
    """

    def __init__(self, *, claim: str, folder: str, begun_by: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        volume, mount = pods.shared_volume(claim, folder)
        self.claim, self.begun_by = claim, begun_by
        self.volumes = [*self.volumes, volume]
        self.volume_mounts = [*self.volume_mounts, mount]
        self.affinity = pods.beside_others(claim)
        self.security_context = pods.pod_security(fs_group=10001)

    def execute(self, context: Context) -> Any:
        if self.begun_by and not context["ti"].xcom_pull(task_ids=self.begun_by):
            raise AirflowSkipException(f"Nothing to do: {self.begun_by} has not succeeded.")
        return super().execute(context)

    def prepare_pod(self, request: Request) -> None:
        super().prepare_pod(request)
        self.labels = {**self.labels, pods.VOLUME_LABEL: self.claim}


class RollBackOperator(HoldfastOperator):
    """Rolls a deployment back after a later step has failed, and reports which and why.

    Args:
        deploy: task that deployed; if it failed, it has already undone its work.
        checks: tasks whose failure triggers the rollback.
    """

    def __init__(self, *, deploy: str, checks: list[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.deploy = deploy
        self.checks = checks

    def asked(self, context: Context) -> Request:
        deployed = context["ti"].xcom_pull(task_ids=self.deploy)
        return replace(super().asked(context), revision=deployed["revision"])

    def execute(self, context: Context) -> Any:
        task = context["ti"]
        deployed = task.xcom_pull(task_ids=self.deploy)
        if not deployed or deployed.get("error"):
            raise AirflowSkipException("Nothing to roll back: this run has deployed nothing.")
        for check in self.checks:
            if why := task.xcom_pull(task_ids=check, key=REASON):
                self.log.error("Rolling back, because %s failed: %s", check, why)
        return super().execute(context)


class LeftOutOperator(BaseOperator):
    """Fails if the smoke check warned that a table leaves out too much of its input.

    Args:
        smoke: task of the smoke check.
    """

    ui_color = "#e8f4ea"

    def __init__(self, *, smoke: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.smoke = smoke

    def execute(self, context: Context) -> None:
        warnings = (context["ti"].xcom_pull(task_ids=self.smoke) or {}).get("warnings") or []
        if warnings:
            raise _failure(context, "\n".join(warnings), final=True)


def _where(request: Request) -> str:
    if request.local:
        return "as a process beside Airflow"
    return f"in a pod of {request.image} in the namespace {request.namespace}"


def _script_environment(command: str, request: Request, outcome: str) -> dict[str, str]:
    return {"COMMAND": command, "CHART_VALUES": request.chart_values(), "OUTCOME": outcome}


def _failure(context: Context, why: str, *, final: bool) -> AirflowException:
    context["ti"].xcom_push(key=REASON, value=why)
    return AirflowFailException(why) if final else AirflowException(why)


def _reason(output: str) -> str:
    """The error at the end of the output (see `holdfast.errors`), or else the last lines."""
    start = output.rfind("Error: ")
    return output[start:].strip() if start >= 0 else "\n".join(output.splitlines()[-5:])

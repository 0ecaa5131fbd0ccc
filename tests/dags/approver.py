"""A person who answers what a run asks, through Airflow's own REST API."""

from __future__ import annotations

import threading
import warnings
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

from airflow.api_fastapi.app import create_app, get_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the library's own successor
    from fastapi.testclient import TestClient

__all__ = ["Approver"]

_LOOK_EVERY_S = 0.2


class Approver(AbstractContextManager["Approver"]):
    """Gives one answer to one question, once there is one; meanwhile a context.

    Args:
        answer: `Approve` or `Reject`.

    Attributes:
        seen: the question as the API tells it; None until it is there.
    """

    def __init__(self, answer: str) -> None:
        self._client = TestClient(create_app(apps="core"))
        user = SimpleAuthManagerUser(username="ann", role="admin")
        token = get_auth_manager().generate_jwt(user)
        self._client.headers["Authorization"] = f"Bearer {token}"
        self._answer = answer
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self.seen: dict[str, Any] | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _wait(self) -> None:
        while self.seen is None and not self._ended.wait(_LOOK_EVERY_S):
            self._look()

    def _look(self) -> None:
        where = "/api/v2/dags/~/dagRuns/~/hitlDetails"
        found = self._client.get(where, params={"response_received": False})
        assert found.status_code == 200, found.text
        for question in found.json()["hitl_details"]:
            task = question["task_instance"]
            if task["state"] == "awaiting_input":
                path = (
                    f"/api/v2/dags/{task['dag_id']}/dagRuns/{task['dag_run_id']}"
                    f"/taskInstances/{task['task_id']}/-1/hitlDetails"
                )
                said = self._client.patch(path, json={"chosen_options": [self._answer]})
                assert said.status_code == 200, said.text
                self.seen = question

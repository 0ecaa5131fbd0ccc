"""The files that tell a hook in the job's own processes to hold a state task.

    alive-<pid>              a process with the hook runs
    order-<id>.json          {"id", "step", "hold_s"}
    held-<id>-<pid>.json     {"id", "step", "query_id", "partition", "pid", "executor"}: claimed
    release-<id>             go on

The hook claims an order by renaming it, so that exactly one state task is held.  The target knows
where the folder is (on this machine, in a pod) and how to read it; the hook itself is part of the
tests and not of Holdfast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from holdfast.types.steps import Step

__all__ = ["HeldFile", "HookFiles", "alive_pid", "order_text", "read_held"]

_ALIVE, _ORDER, _HELD, _RELEASE = "alive-", "order-", "held-", "release-"


@dataclass(frozen=True)
class HeldFile:
    """The hook's report on the state task it holds; `executor` is Spark's id of the executor."""

    order: str
    step: Step
    query_id: str
    partition: int
    pid: int
    executor: str


def order_text(order: str, step: Step, hold_s: float) -> bytes:
    """The content of `order-<id>.json`."""
    return orjson.dumps({"id": order, "step": step.name, "hold_s": hold_s})


def read_held(text: bytes) -> HeldFile | None:
    """Parses a `held-…` file; None while it still has the content of the claimed order."""
    try:
        found: Mapping[str, object] = orjson.loads(text)
        return HeldFile(
            order=str(found["id"]),
            step=Step[str(found["step"])],
            query_id=str(found["query_id"]),
            partition=int(str(found["partition"])),
            pid=int(str(found["pid"])),
            executor=str(found["executor"]),
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return None


def alive_pid(name: str) -> int | None:
    """The pid in the name of an `alive-…` file; None for other files."""
    pid = name.removeprefix(_ALIVE)
    return int(pid) if name.startswith(_ALIVE) and pid.isdecimal() else None


class HookFiles:
    """The hook's folder, where it is on this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def pids(self) -> list[int]:
        """Processes that had the hook; some may have ended since."""
        if not self._folder.is_dir():
            return []
        found = (alive_pid(file.name) for file in self._folder.iterdir())
        return sorted(pid for pid in found if pid is not None)

    def order(self, order: str, step: Step, hold_s: float) -> None:
        """Orders that the next state task past `step` is held for at most `hold_s` seconds."""
        self._folder.mkdir(parents=True, exist_ok=True)
        beside = self._folder / f".{_ORDER}{order}"
        beside.write_bytes(order_text(order, step, hold_s))
        beside.replace(self._folder / f"{_ORDER}{order}.json")

    def held(self, order: str) -> HeldFile | None:
        """The state task held by the order; None while there is none."""
        for file in self._folder.glob(f"{_HELD}{order}-*.json"):
            try:
                found = read_held(file.read_bytes())
            except FileNotFoundError:
                continue
            if found is not None:
                return found
        return None

    def release(self, order: str) -> None:
        """Lets the held task continue, or withdraws the order."""
        (self._folder / f"{_ORDER}{order}.json").unlink(missing_ok=True)
        if self._folder.is_dir():
            (self._folder / f"{_RELEASE}{order}").touch()

    def clear(self) -> None:
        """Withdraws all orders and lets held tasks continue."""
        if not self._folder.is_dir():
            return
        for file in self._folder.iterdir():
            name = file.name
            if name.startswith(_ORDER):
                self.release(name.removeprefix(_ORDER).removesuffix(".json"))
            elif name.startswith(_HELD):
                self.release(name.removeprefix(_HELD).rpartition("-")[0])

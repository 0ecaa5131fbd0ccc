"""The files by which a hook in the job's own processes is told to hold a state task.

    alive-<pid>              a process with the hook runs
    order-<id>.json          {"id", "step", "hold_s"}
    held-<id>-<pid>.json     {"id", "step", "query_id", "partition", "pid", "executor"}: claimed
    release-<id>             go on

The hook claims an order by renaming it, so that one state task is held and no other.  Where the
folder is (of this machine, in a pod), and how it is read, is the target's business; the hook
itself is among the tests and no part of Holdfast.
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
    """What the hook wrote about the state task it holds; `executor` is Spark's name for it."""

    order: str
    step: Step
    query_id: str
    partition: int
    pid: int
    executor: str


def order_text(order: str, step: Step, hold_s: float) -> bytes:
    """What `order-<id>.json` holds."""
    return orjson.dumps({"id": order, "step": step.name, "hold_s": hold_s})


def read_held(text: bytes) -> HeldFile | None:
    """What a `held-…` file says; None while it still is the order that was claimed."""
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
    """The folder, where it is one of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def pids(self) -> list[int]:
        """Processes that had the hook; some may have ended since."""
        if not self._folder.is_dir():
            return []
        found = (alive_pid(file.name) for file in self._folder.iterdir())
        return sorted(pid for pid in found if pid is not None)

    def order(self, order: str, step: Step, hold_s: float) -> None:
        """The next state task that gets past `step` is held for at most `hold_s` seconds."""
        self._folder.mkdir(parents=True, exist_ok=True)
        beside = self._folder / f".{_ORDER}{order}"
        beside.write_bytes(order_text(order, step, hold_s))
        beside.replace(self._folder / f"{_ORDER}{order}.json")

    def held(self, order: str) -> HeldFile | None:
        """Who is held by the order; None as long as nobody is."""
        for file in self._folder.glob(f"{_HELD}{order}-*.json"):
            try:
                found = read_held(file.read_bytes())
            except FileNotFoundError:
                continue
            if found is not None:
                return found
        return None

    def release(self, order: str) -> None:
        """Lets go, or takes the order back."""
        (self._folder / f"{_ORDER}{order}.json").unlink(missing_ok=True)
        if self._folder.is_dir():
            (self._folder / f"{_RELEASE}{order}").touch()

    def clear(self) -> None:
        """Takes back all orders; whoever is held goes on."""
        if not self._folder.is_dir():
            return
        for file in self._folder.iterdir():
            name = file.name
            if name.startswith(_ORDER):
                self.release(name.removeprefix(_ORDER).removesuffix(".json"))
            elif name.startswith(_HELD):
                self.release(name.removeprefix(_HELD).rpartition("-")[0])

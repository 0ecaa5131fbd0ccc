"""The lease of a job's driver: a second driver of the job is refused at its start (ADR 62).

It keeps two drivers from taking turns to fence each other, which costs both of them minutes.
Nothing else depends on it: exactly once rests on fencing, whoever believes to be the driver.
"""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError, JobOwned
from holdfast.state.topics.orders import Driver, OrderBook
from holdfast.transport.cluster.membership import LIVES_S, Membership, has_member
from holdfast.types.births import after_boot, lives, machine, written
from holdfast.types.ids import driver_group

__all__ = ["NAME_VARIABLE", "Lease", "look_before", "this_driver"]

NAME_VARIABLE = "HOLDFAST_DRIVER_NAME"
"""Environment variable: what a driver is called that is restarted elsewhere, as a pod is."""

_LOG = logging.getLogger(__name__)
_ASK_S = 30.0
_RELEASE_S = 3.0
_POLL_S = 0.25
_SLACK_S = 2.0


def this_driver(settings: Settings) -> Driver:
    """This process as the driver of a job.

    With a name it has a key, too, made from the secret that only its own deployment knows: in
    another cluster there may be a pod of that name.
    """
    name, key = os.environ.get(NAME_VARIABLE, ""), ""
    if name and settings.spark_secret_file:
        secret = Path(settings.spark_secret_file).read_bytes()
        key = hashlib.sha256(b"lease of " + secret).hexdigest()[:16]
    return _driver(settings, name, key)


def look_before(settings: Settings, book: OrderBook) -> None:
    """Checks, before a driver of the name in `NAME_VARIABLE` is deployed, that no other runs.

    Raises:
        JobOwned: another driver does.
        KafkaUnavailable, Refused: nobody knows.
    """
    name = os.environ.get(NAME_VARIABLE, "")
    if name and settings.lease and (book.driver is None or book.driver.name != name):
        Lease(settings, book, _driver(settings, name, ""), threading.Event()).look()


def _driver(settings: Settings, name: str, key: str) -> Driver:
    pid = os.getpid()
    home = Path(settings.home).absolute()
    return Driver(
        name=name or f"pid {pid} on {socket.gethostname()}, home {home}",
        key=key,
        machine=machine(),
        pid=pid,
        born=after_boot(pid),
        since_ms=int(time.time() * 1000),
    )


@dataclass
class Lease:
    """Owns the lease of one driver, from `take` until it is lost or given back.

    Attributes:
        book: the job's; its topic has the name of the driver.
        stop: set when another driver has taken the lease.
    """

    settings: Settings
    book: OrderBook
    me: Driver
    stop: threading.Event
    _lost: threading.Event = field(default_factory=threading.Event)
    _membership: Membership | None = None

    @property
    def lost(self) -> bool:
        """Whether another driver has taken it."""
        return self._lost.is_set()

    def look(self, joins_s: float = 3.0) -> None:
        """Checks that no other driver has the lease; waits up to 8 s for one that may be dead.

        Args:
            joins_s: how long a driver that has written its name may take to be seen alive.

        Raises:
            JobOwned: another driver has it, and is alive.
            KafkaUnavailable, Refused: nobody knows.
        """
        deadline = time.monotonic() + LIVES_S + _SLACK_S
        while (other := self._other(joins_s)) is not None:
            if time.monotonic() >= deadline:
                raise _owned(self.settings.application_id, other)
            time.sleep(_POLL_S)

    def take(self) -> None:
        """Takes the lease, whoever has it.

        Raises:
            KafkaUnavailable, Refused: it may have been taken.
        """
        self.book.tell_driver(self.me)
        group = driver_group(self.settings.application_id)
        client = self.settings.client()
        self._membership = Membership(client, group, self.book.topic, self._lose)

    def check(self) -> None:
        """Checks that no other driver has taken the lease.

        Raises:
            JobOwned: one has.
        """
        if self.lost:
            raise self._taken_over()

    def give_back(self) -> None:
        """Lets the next driver start at once; does nothing if another has taken the lease."""
        if self._membership is None:
            return
        self._membership.close()
        if self.lost:
            return
        try:
            self.book.tell_driver(None, _RELEASE_S)
        except HoldfastError as error:
            _LOG.warning("The lease runs out by itself in %.0f s: %s", LIVES_S, error.fact)

    def _other(self, joins_s: float) -> Driver | None:
        """The other driver that has the lease, unless it is known to be dead."""
        self.book.refresh()
        held = self.book.driver
        if held is None or _same(held, self.me) or _ended(held):
            return None
        return held if self._lives(joins_s) else None

    def _lives(self, joins_s: float) -> bool:
        """Whether some driver holds the lease; waits for one that is about to join its group."""
        client, group = self.settings.client(), driver_group(self.settings.application_id)
        deadline = time.monotonic() + joins_s
        while not (found := has_member(client, group, _ASK_S)) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return found

    def _taken_over(self) -> JobOwned:
        try:
            self.book.refresh()
        except HoldfastError as error:
            _LOG.warning("Who has taken the job over cannot be read: %s", error.fact)
        by = self.book.driver
        other = "another driver" if by is None or by == self.me else _told(by)
        return JobOwned(
            f"The job {self.settings.application_id} was taken over by {other}; this driver ends.",
            cause="it was started with --take-over (chart: driver.takeOver), or at the same time",
            action="nothing is lost; start this one with --take-over to take the job back",
        )

    def _lose(self) -> None:
        self._lost.set()
        self.stop.set()


def _same(one: Driver, other: Driver) -> bool:
    """Whether both are the same driver, restarted by whoever sees to there being only one."""
    return bool(one.key) and (one.name, one.key) == (other.name, other.key)


def _ended(driver: Driver) -> bool:
    """Whether a driver of this machine has ended."""
    here = driver.machine == machine()
    return here and not lives(driver.pid, written(driver.born, driver.machine))


def _told(driver: Driver) -> str:
    since = datetime.fromtimestamp(driver.since_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{driver.name}, since {since}"


def _owned(job: str, other: Driver) -> JobOwned:
    return JobOwned(
        f"The job {job} is run by {_told(other)}; this driver does not start.",
        cause="two deployments have the same application.id, or the first one was not ended",
        action="end the first one, or give this one an application.id of its own; to end the "
        "first one by starting this one: --take-over (chart: driver.takeOver)",
    )

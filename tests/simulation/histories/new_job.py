"""A job that goes on from a savepoint of a former one, with another number of state partitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError
from holdfast.runtime.carrying_out import InHand
from holdfast.runtime.savepoints.taking import SavepointMaker
from holdfast.state.topics.orders import Answer, SavepointOrder
from holdfast.types.statements.topology import Topology
from tests.simulation.histories.job import Job

__all__ = ["NewJob"]

_FORMER, _NAME = "former", "s"
_ATTEMPTS = 20
_PAUSE_S = 30.0


class NewJob:
    """Knows the two jobs of a history.

    Args:
        settings: of the new one.
        after: the round after which it takes over.
    """

    def __init__(self, settings: Settings, after: int) -> None:
        self._settings = settings
        self._after = after
        self._has_begun = False

    def former(self, partitions: int) -> Settings:
        """The settings of the former job, which has so many state partitions."""
        state = replace(self._settings.state, partitions=partitions)
        return replace(self._settings, application_id=_FORMER, state=state)

    def is_due(self, rounds: int) -> bool:
        """Whether the new job takes over after so many rounds."""
        return not self._has_begun and rounds >= self._after

    def goes_on_from(self, job: Job, topology: Topology) -> Settings:
        """Makes a savepoint of the former job; returns the settings of the new one.

        Raises:
            HoldfastError: it is not made, however often it is tried.
        """
        services = job.services
        maker = SavepointMaker(services, cast("Any", None), topology.text)
        order = SavepointOrder(1 << 60, "token")
        for left in reversed(range(_ATTEMPTS)):
            try:
                maker.make(InHand(_NAME, order, Answer("token")), [job.run])
            except HoldfastError:
                if not left:
                    raise
                job.clock.sleep(_PAUSE_S)
                job.advance()
            else:
                break
        self._has_begun = True
        snapshots = replace(self._settings.snapshots, start_from=f"{_FORMER}/{_NAME}")
        return replace(self._settings, snapshots=snapshots)

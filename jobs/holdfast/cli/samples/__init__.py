"""The example data of `holdfast produce`: the name, topic and events of each set."""

from __future__ import annotations

from holdfast.cli.samples.event import Event, Sample
from holdfast.cli.samples.flights import FLIGHTS
from holdfast.cli.samples.small import MOVIES, PAYMENTS, SENSORS

__all__ = ["SAMPLES", "Event", "Sample"]

SAMPLES: dict[str, Sample] = {s.name: s for s in (FLIGHTS, MOVIES, SENSORS, PAYMENTS)}

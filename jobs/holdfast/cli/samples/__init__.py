"""The example data of `holdfast produce`: what each set is called, where it goes, its events."""

from __future__ import annotations

from holdfast.cli.samples.event import Event, Sample
from holdfast.cli.samples.flights import FLIGHTS
from holdfast.cli.samples.small import MOVIES, PAYMENTS, SENSORS

__all__ = ["SAMPLES", "Event", "Sample"]

SAMPLES: dict[str, Sample] = {s.name: s for s in (FLIGHTS, MOVIES, SENSORS, PAYMENTS)}

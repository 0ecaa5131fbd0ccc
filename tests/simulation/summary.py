"""The line the simulation leaves in pytest's summary."""

from __future__ import annotations

import pytest

__all__ = ["SUMMARY"]

SUMMARY = pytest.StashKey[str]()

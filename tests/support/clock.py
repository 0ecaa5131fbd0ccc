"""Jumps of this process's clock, as far as start times of processes depend on it."""

from __future__ import annotations

import psutil
import pytest

__all__ = ["jump"]


def jump(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Set the clock, as psutil sees it: the machine was booted at another time."""
    platform = vars(psutil)["_psplatform"]
    boot_time = platform.boot_time
    monkeypatch.setattr(platform, "boot_time", lambda: boot_time() + seconds)

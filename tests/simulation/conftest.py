"""Prints what the simulation visited, also when everything passed."""

from __future__ import annotations

import pytest

from tests.simulation.histories.summary import SUMMARY


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for line in config.stash.get(SUMMARY, []):
        terminalreporter.write_line(line)

"""State: stores behind one contract, their changelogs, restore, and volumes."""

from __future__ import annotations

from holdfast.state.backends import open_table_store, survey_positions

__all__ = ["open_table_store", "survey_positions"]

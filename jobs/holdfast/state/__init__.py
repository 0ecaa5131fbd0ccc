"""State: stores behind one contract, their changelogs, restore, and volumes."""

from __future__ import annotations

from holdfast.state.backends import (
    copied_position,
    open_copy,
    open_table_store,
    survey_positions,
)

__all__ = ["copied_position", "open_copy", "open_table_store", "survey_positions"]

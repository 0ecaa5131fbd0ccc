"""State: stores behind one contract, their changelog, restore, and the volumes they lie on."""

from __future__ import annotations

from holdfast.state.backends import open_table_store, survey_positions

__all__ = ["open_table_store", "survey_positions"]

"""State: stores behind one contract, their changelogs, restore, and volumes."""

from __future__ import annotations

from holdfast.state.backends import (
    StorePlace,
    copied_position,
    open_copy,
    open_table_store,
    place_of_stores,
    survey_positions,
)

__all__ = [
    "StorePlace",
    "copied_position",
    "open_copy",
    "open_table_store",
    "place_of_stores",
    "survey_positions",
]

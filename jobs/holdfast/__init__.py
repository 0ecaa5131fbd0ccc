"""Holdfast: state tables on Spark that hold fast while pods do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.tasks.aggregates.user import aggregate
    from holdfast.tasks.functions.user import function

__all__ = ["__version__", "aggregate", "function"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Imports the names that need Arrow on first use, so that `holdfast --version` is fast."""
    if name == "aggregate":
        from holdfast.tasks.aggregates.user import aggregate

        return aggregate
    if name == "function":
        from holdfast.tasks.functions.user import function

        return function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

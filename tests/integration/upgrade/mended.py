"""Columns whose values a later version mended on purpose; they are left out of comparisons.

After a merge and inside lambdas DuckDB had values of its own: an INTEGER beyond its bounds was NULL
where Java wraps it, and UCASE('ß') was 'ẞ' where Java has 'SS'.
"""

from __future__ import annotations

__all__ = ["mended"]

_MENDED = {
    "csas_settled": {"TWICE", "KIND"},
    "csas_lived": {"TOTAL"},
    "ctas_housed_2": {"COUNTRY"},
    "ctas_housed": {"COUNTRY"},
    "csas_projected": {"DOUBLED"},
}


def mended(query_id: str) -> set[str]:
    """The names of the sink's columns whose values were mended."""
    return _MENDED.get(query_id, set())

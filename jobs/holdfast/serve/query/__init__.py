"""Pull and push queries in SQL over served tables.

A statement becomes a `Read` (`holdfast.sql.read.plan`); `plans` caches it, `access` decides how its
rows are found, `pull` and `push` run it, `evaluate` turns stored rows into result rows.
"""

from __future__ import annotations

from holdfast.serve.query.engine import QueryEngine

__all__ = ["QueryEngine"]

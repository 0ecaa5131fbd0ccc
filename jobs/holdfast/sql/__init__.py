"""SQL: ksqlDB-like statements → catalog → `Topology`, and its explanation.  Pure; uses sqlglot."""

from __future__ import annotations

from holdfast.sql.explain.lineage import Lineage, lineage
from holdfast.sql.explain.topology import explain
from holdfast.sql.plan.topology import compile_text

__all__ = ["Lineage", "compile_text", "explain", "lineage"]

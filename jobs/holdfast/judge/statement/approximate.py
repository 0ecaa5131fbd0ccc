"""Approximate aggregates: the exact answer, from which `values.same` works out what is near enough.

The documented errors of the sketches are the bounds; see `Match`.
"""

from __future__ import annotations

from sqlglot import exp

from holdfast.judge.values import QUANTILE_ERROR, Match, Untranslatable

__all__ = ["NODES", "is_within", "match_of", "sql_of"]

NODES = (exp.ApproxDistinct, exp.ApproxQuantile, exp.ApproxTopK)
_MATCHES = dict(zip(NODES, (Match.NEAR_COUNT, Match.BETWEEN, Match.MOST_FREQUENT), strict=True))


def match_of(node: exp.Expr) -> Match | None:
    """How to compare a value of `node`; None where it is no such aggregate."""
    return next((match for kind, match in _MATCHES.items() if isinstance(node, kind)), None)


def is_within(node: exp.Expr) -> bool:
    """Whether an expression has such an aggregate somewhere."""
    return node.find(*NODES) is not None


def sql_of(node: exp.Expr, value: str, *, real: bool) -> str:
    """DuckDB SQL of the exact answer, in the form that its `Match` wants.

    Args:
        value: DuckDB SQL of the argument.
        real: whether that is a double.
    """
    if isinstance(node, exp.ApproxDistinct):
        return f"count(DISTINCT {f'CAST({value} AS VARCHAR)' if real else value})"
    if isinstance(node, exp.ApproxQuantile):
        return _bounds(node, value)
    if real:
        raise Untranslatable("APPROX_TOP_K of doubles")
    k = int(node.args["expression"].this)
    entries = f"map_entries(histogram({value}) FILTER ({value} IS NOT NULL))"
    pairs = f"list_transform({entries}, e -> {{'ITEM': e.key, 'COUNT': CAST(e.value AS BIGINT)}})"
    return f"list_append(coalesce({pairs}, []), {{'ITEM': NULL, 'COUNT': {k}}})"


def _bounds(node: exp.Expr, value: str) -> str:
    """The values at the least and the greatest share that may be answered for, of each share."""
    names = ("quantile", "accuracy", "weight", "error_tolerance")  # sqlglot's, by position
    shares = [float(node.args[n].this) for n in names if node.args.get(n) is not None]
    doubles = f"CAST({value} AS DOUBLE)"
    ends = [
        min(max(share + off, 0.0), 1.0)
        for share in shares
        for off in (-QUANTILE_ERROR, QUANTILE_ERROR)
    ]
    return f"quantile_disc({doubles}, {ends})"

"""The report of a verified run as one HTML page."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from html import escape

from holdfast.compaction.apply.scratch import RestoreSample
from holdfast.compaction.verify.history import Judgement, Line, judge
from holdfast.compaction.verify.report_plots import history_svg, partitions_svg, topics_svg
from holdfast.compaction.verify.verified import TopicResult, Verified
from holdfast.pages.html import document, header, section, table
from holdfast.types.words import human_bytes, human_seconds

__all__ = ["headline", "page"]

_OPEN_MAX = 3  # topics whose partitions are shown at once


def headline(verified: Verified) -> str:
    """The run in one sentence."""
    cleaned = [t for t in verified.topics if t.partitions]
    if not cleaned:
        return "No changelog was cleaned."
    before, after = (sum(t.bytes_before for t in cleaned), sum(t.bytes_real for t in cleaned))
    records = (sum(t.records_before for t in cleaned), sum(t.records_real for t in cleaned))
    count = "1 changelog" if len(cleaned) == 1 else f"{len(cleaned)} changelogs"
    return (
        f"{count}: {human_bytes(before)} → {human_bytes(after)}, a restore replays "
        f"{records[0]:,} → {records[1]:,} records."
    )


def page(verified: Verified, history: Sequence[Line]) -> str:
    """The whole page; `history` is that of all runs, this one among them."""
    cleaned = [t for t in verified.topics if t.partitions]
    parts = [_header(verified), _warnings(verified)]
    if cleaned:
        plot = f'<div class="plot">{topics_svg(cleaned)}</div>'
        parts.append(section("Before, predicted, real", plot + _overview(cleaned)))
        parts.append(_restores(cleaned))
        parts.append(_partitions(cleaned))
    parts += [_settings(verified.topics), _history(history)]
    return document(f"Compaction run {verified.run}", parts)


def _header(verified: Verified) -> str:
    warned = len(verified.all_warnings)
    facts = {
        "Run": verified.run,
        "Plan": verified.plan_hash,
        "Cluster": verified.cluster_id,
        "Verified": dt.datetime.fromtimestamp(verified.taken_ms / 1000, dt.UTC).strftime(
            "%Y-%m-%d %H:%M:%S UTC"
        ),
        "Topics": len(verified.topics),
        "Warnings": warned,
    }
    badge = f"{warned} warning{'s' if warned > 1 else ''}" if warned else verified.verdict
    kind = "valid" if not warned else "unknown"
    return header(kind, badge, f"Compaction run {verified.run}", headline(verified), facts)


def _warnings(verified: Verified) -> str:
    if not verified.all_warnings:
        return ""
    items = "".join(f'<li class="unknown">{escape(w)}</li>' for w in verified.all_warnings)
    return section("What is not as predicted", f'<ul class="problems">{items}</ul>')


def _overview(topics: Sequence[TopicResult]) -> str:
    names = ("Topic", "Before", "Predicted", "Real", "Off", "Of the removable part")
    rows = (
        (
            t.topic,
            human_bytes(t.bytes_before),
            human_bytes(t.bytes_predicted),
            human_bytes(t.bytes_real),
            _off(t.bytes_predicted, t.bytes_real),
            f"{t.removed_share:.1%} gone",
        )
        for t in topics
    )
    return table(names, rows, numbers=5)


def _restores(topics: Sequence[TopicResult]) -> str:
    names = ("Topic", "Partition", "Records", "Seconds", "Records/s", "Share of records left")
    note = (
        "<p>One partition of each topic, the one in the middle by size, was restored into an "
        "empty store before the apply and again after it.</p>"
    )
    rows = [row for topic in topics for row in _restore_rows(topic)]
    return section("Restores, measured", note + table(names, rows, numbers=5)) if rows else ""


def _restore_rows(topic: TopicResult) -> Iterator[tuple[object, ...]]:
    before, after = topic.sample_before, topic.sample_after
    if before is None or after is None:
        return
    share = topic.restore_share
    yield (
        topic.topic,
        before.partition,
        f"{before.records:,} → {after.records:,}",
        f"{_measured(before)} → {_measured(after)}",
        f"{before.records_per_s:,.0f} → {after.records_per_s:,.0f}",
        "" if share is None else f"{share:.1%}",
    )


def _measured(sample: RestoreSample) -> str:
    if sample.seconds < 60:
        return f"{sample.seconds:.2f} s"
    return human_seconds(sample.seconds)


def _partitions(topics: Sequence[TopicResult]) -> str:
    cards = "".join(_card(n, t, opened=len(topics) <= _OPEN_MAX) for n, t in enumerate(topics))
    note = (
        "<p>What was predicted has what the job has written since added to it, by the size of "
        "the records there were.</p>"
    )
    return section("Partitions", note + cards)


def _card(number: int, topic: TopicResult, *, opened: bool) -> str:
    names = ("Partition", "Before", "Predicted", "Real", "Records before", "Predicted", "Real")
    rows = (
        (
            p.partition,
            human_bytes(p.bytes_before),
            human_bytes(p.bytes_predicted + p.grown_bytes),
            human_bytes(p.bytes_real),
            f"{p.records_before:,}",
            f"{p.records_predicted + p.grown_records:,}",
            f"{p.records_real:,}",
        )
        for p in topic.partitions
    )
    plot = f'<div class="plot">{partitions_svg(topic, f"partitions{number}")}</div>'
    return (
        f"<details{' open' if opened else ''}><summary><b>{escape(topic.topic)}</b></summary>"
        f"{plot}{table(names, rows, numbers=6)}</details>"
    )


def _settings(topics: Sequence[TopicResult]) -> str:
    rows = [
        (t.topic, t.outcome, name, _value(before), _value(now))
        for t in topics
        for name, before, now in t.settings
    ]
    if not rows:
        return ""
    note = "<p>A topic's own settings that the plan names; what was temporary is back.</p>"
    names = ("Topic", "Outcome", "Setting", "Before", "Now")
    return section("Settings", note + table(names, rows))


def _history(lines: Sequence[Line]) -> str:
    judged = judge(lines)
    if not judged.topics:
        return ""
    words = (
        f"Over {judged.topics} verified {'topic' if judged.topics == 1 else 'topics'} the median "
        f"prediction was off by {_medians(judged)}."
    )
    plot = f'<div class="plot">{history_svg(lines)}</div>' if len(lines) > 1 else ""
    return section("How good predictions were", f"<p>{words}</p>{plot}")


def _medians(judged: Judgement) -> str:
    told = (
        (judged.bytes, "bytes"),
        (judged.records, "records"),
        (judged.restore, "restore seconds"),
    )
    return ", ".join(f"{share:.0%} ({what})" for share, what in told if share is not None)


def _off(predicted: float, real: float) -> str:
    return f"{(real - predicted) / predicted:+.1%}" if predicted > 0 else ""


def _value(value: str | None) -> str:
    return value if value is not None else "(the broker's)"

"""One function per disagreement between the places that hold a query's results and progress.

Sink, changelog, commit markers, stores and the consumer group must agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from holdfast.judge.checkers.checking import finding, open_finding, unjudged
from holdfast.judge.checkers.late import doubt, explained
from holdfast.judge.evidence import StreamEvidence, TableEvidence
from holdfast.judge.read.changelog_fold import FoldedPartition
from holdfast.judge.values import Key, RowHead, show_key
from holdfast.judge.verdict import Finding, Verdict
from holdfast.types.stores import StoreDigest

__all__ = [
    "changelog_agrees",
    "changelog_rows",
    "dead_letters_agree",
    "elements_agree",
    "group_agrees",
    "hanging_transactions",
    "markers_agree",
    "markers_go_on",
    "stores_agree",
    "stores_differ",
]


def changelog_agrees(table: TableEvidence) -> Finding:
    """The changelog holds as many live rows as the input has groups."""
    name, changelog = "changelog_agrees", table.changelog
    if changelog is None:
        return unjudged(name, "the changelog was not read")
    if table.expected is None:
        return unjudged(name, table.unjudged)
    rows, least, most = changelog.rows, changelog.rows_min, changelog.rows_max
    span = f"{least}" if least == most else f"{least} to {most}"
    fact = f"{rows} live rows in the changelog, {span} expected"
    if least <= rows <= most:
        return Finding(name, Verdict.VALID, fact)
    excuse = doubt(table) if rows > most else explained(table, least - rows)
    return Finding(name, excuse.verdict, fact + excuse.words)


def changelog_rows(table: TableEvidence) -> Finding:
    """The changelog's rows were made from the same records as the table's."""
    name, heads = "changelog_rows", table.changelog.heads if table.changelog is not None else None
    if table.expected is None:
        return unjudged(name, table.unjudged)
    if heads is None:
        return Finding(name, Verdict.VALID, "keys of these types are not read from the changelog")
    known = {key: head for key, head in heads.items() if head is not None}
    strange = [key for key in heads if key not in table.records]
    bad = [f"{show_key(key)}: comes from no input record" for key in strange]
    bad += [
        f"{show_key(key)}: {why}"
        for key, head in known.items()
        if key in table.records and (why := _other_records(table, key, head))
    ]
    fact = f"{len(bad)} of {len(heads)} rows of the changelog come from other records"
    if not bad:
        return Finding(name, Verdict.VALID, f"{fact}, {len(known)} could be read")
    excuse = doubt(table)
    return finding(name, excuse.verdict, fact + excuse.words, bad)


def elements_agree(table: TableEvidence) -> Finding:
    """The changelog holds as many distinct values of a group as its result counts."""
    name, changelog = "elements_agree", table.changelog
    counts = changelog.elements if changelog is not None else {}
    rows = table.history.rows
    bad = [
        f"{show_key(key)}: {column} is {rows[key].get(column)}, the changelog has {count} values"
        for key, columns in counts.items()
        if key in rows
        for column, count in columns.items()
        if rows[key].get(column) != count
    ]
    fact = f"{len(bad)} of {len(counts)} rows count other values than the changelog has"
    return finding(name, Verdict.INVALID if bad else Verdict.VALID, fact, bad)


def dead_letters_agree(evidence: TableEvidence | StreamEvidence) -> Finding:
    """As many dead letters as undecodable records: none was dropped unseen."""
    name, wanted, found = "dead_letters_agree", evidence.undecodable, evidence.dead_letters
    if wanted is None or found is None:
        return Finding(name, Verdict.VALID, "nothing is set aside, or nobody counted it")
    fact = f"{found} records were set aside as dead letters, {wanted} cannot be decoded"
    if found == wanted:
        return Finding(name, Verdict.VALID, fact)
    if evidence.doubtful or found > wanted:
        return Finding(name, Verdict.UNKNOWN, f"{fact}; {evidence.doubtful}".rstrip("; "))
    return Finding(name, Verdict.INVALID, fact)


def stores_agree(table: TableEvidence) -> Finding:
    """Every store holds exactly the rows of its changelog partition."""
    name, changelog = "stores_agree", table.changelog
    if changelog is None or changelog.stores is None:
        return unjudged(name, "the stores were not read")
    bad, missing, read, compared = stores_differ(changelog.folded, changelog.stores)
    fact = f"{len(bad)} of {read} stores differ from their changelog, {compared} row by row"
    if bad:
        return finding(name, Verdict.INVALID, fact, bad)
    return finding(name, Verdict.UNKNOWN if missing else Verdict.VALID, fact, missing)


def stores_differ(
    folded: Mapping[int, FoldedPartition], stores: Mapping[int, Sequence[StoreDigest]]
) -> tuple[list[str], list[str], int, int]:
    """(differences, unreadable stores, number of readable ones, number compared row by row)."""
    written = {p: each for p, each in folded.items() if each.last_offset >= 0}
    read = [
        (each, store)
        for p, each in written.items()
        for n, store in enumerate(stores.get(p, ()))
        # Of the others only level ones, which are ready to take over.
        if n == 0 or store.position > each.last_offset
    ]
    bad = [text for each, store in read for text in _disagreement(each, store)]
    compared = sum(store.digest is not None for _, store in read)
    missing = [
        f"state partition {p}: its store could not be read" for p in written if not stores.get(p)
    ]
    return bad, missing, len(read), compared


def markers_agree(evidence: TableEvidence | StreamEvidence) -> Finding:
    """Every commit marker reaches the end of the input."""
    unlevel = evidence.progress.unlevel
    fact = f"{len(unlevel)} commit markers that are not at the input's end"
    verdict = Verdict.INVALID if unlevel else Verdict.VALID
    return finding("markers_agree", verdict, fact, unlevel)


def markers_go_on(evidence: TableEvidence | StreamEvidence) -> Finding:
    """Every commit marker covers at least what the previous one covers, and names this query."""
    bad = evidence.progress.contradictions
    fact = f"{len(bad)} commit markers contradict the one before them or belong to another query"
    return finding("markers_go_on", Verdict.INVALID if bad else Verdict.VALID, fact, bad)


def group_agrees(evidence: TableEvidence | StreamEvidence) -> Finding:
    """The group's offsets show lag tools what is committed: never more, and in the end no less."""
    progress = evidence.progress
    ahead, behind = [], []
    for partition, end in sorted(progress.ends.items()):
        group, taken = progress.group.get(partition), progress.taken_in.get(partition, 0)
        place = f"topic partition {partition}: group {group}, commit markers {taken}, end {end}"
        if group is not None and group > taken:
            ahead.append(place)
        elif group is None or group < end:
            behind.append(place)
    fact = (
        f"{len(ahead)} topic partitions where the group is ahead of the commit markers, "
        f"{len(behind)} where it is behind the input's end"
    )
    if ahead:
        return finding("group_agrees", Verdict.INVALID, fact, ahead)
    # The group's offsets only mislead lag tools; no record is affected.
    verdict = Verdict.UNKNOWN if behind else Verdict.VALID
    return finding("group_agrees", verdict, fact, behind)


def hanging_transactions(evidence: TableEvidence | StreamEvidence) -> Finding:
    """No transaction stays open once the job has caught up."""
    return open_finding("hanging_transactions", evidence.open_transactions)


def _other_records(table: TableEvidence, key: Key, head: RowHead) -> str:
    """How a changelog row contradicts the input or the sink, in words; empty when it does not."""
    records, newest_ms = table.records[key], table.newest[key]
    late = table.windowed and table.dropped_late != 0
    if late and table.record_count:  # then the sink tells how many records there are
        records = table.history.rows.get(key, {}).get(table.record_count, 0)
    counted = head.records if head.records is not None else records
    wrong = counted != records if not late or table.record_count else counted > records
    if wrong:
        return f"made of {counted} records, must be {records}"
    if head.newest_ms > newest_ms or (head.newest_ms < newest_ms and not late):
        return f"newest record at {head.newest_ms} ms, must be {newest_ms}"
    return ""


def _disagreement(folded: FoldedPartition, store: StoreDigest) -> Iterator[str]:
    volume = f" on volume {store.volume}" if store.volume >= 0 else ""
    name = f"state partition {store.partition}{volume}"
    if store.position <= folded.last_offset:
        yield f"{name}: store at {store.position}, last changelog record at {folded.last_offset}"
    elif store.rows != folded.rows:
        yield f"{name}: {store.rows} rows in the store, {folded.rows} in the changelog"
    elif store.digest not in (None, folded.digest):
        yield f"{name}: as many rows ({folded.rows}), but other ones"

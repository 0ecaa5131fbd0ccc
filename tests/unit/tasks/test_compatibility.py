"""Which statement may go on with the rows of another one."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from holdfast.errors import IncompatibleStatement
from holdfast.sql import compile_text
from holdfast.state.changelog import FORMAT_VERSION, CommitMarker
from holdfast.state.topics.source_progress import SourceProgress
from holdfast.tasks.compatibility import (
    check_marker,
    check_progress,
    rows_differ,
    state_fits,
)
from holdfast.transport.partitioner import PARTITIONER
from holdfast.types.ids import OffsetRange
from holdfast.types.statements.facts import statement_facts
from holdfast.types.statements.topology import Query
from tests.unit.state.changelog_model import marker as model_marker

SOURCES = """\
CREATE STREAM a (k INT KEY, v INT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON');
CREATE TABLE t (k INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');
CREATE TABLE u (k INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='u', VALUE_FORMAT='JSON');
"""
WINDOW = "FROM a WINDOW TUMBLING (SIZE 1 MINUTE)"


def query(rest: str, create: str = "CREATE") -> Query:
    return compile_text(f"{SOURCES}{create} TABLE o AS SELECT {rest};").queries[-1]


@pytest.mark.parametrize(
    ("before", "after", "fits", "when_replaced"),
    [
        ("k, SUM(v) s FROM a GROUP BY k", "k, SUM(v) s FROM a GROUP BY k", True, True),
        ("k, SUM(v) s FROM a GROUP BY k", "k, SUM(v) + 1 s FROM a GROUP BY k", True, True),
        ("k, SUM(v) s FROM a GROUP BY k", "k, SUM(v) s FROM a WHERE v > 1 GROUP BY k", False, True),
        ("k, SUM(v) s FROM a GROUP BY k", "k, MAX(v) s FROM a WHERE v > 1 GROUP BY k",
         False, False),
        (f"k, SUM(v) s {WINDOW} GROUP BY k", f"k, SUM(v) s {WINDOW} WHERE v > 1 GROUP BY k",
         False, False),
        ("v, COUNT(*) s FROM t GROUP BY v", "v, COUNT(*) s FROM t WHERE k > 1 GROUP BY v",
         True, True),  # the filter is before the changes, in the first of its queries
        ("* FROM t WHERE v > 1", "* FROM t WHERE v > 2", False, False),
    ],
)  # fmt: skip
def test_state_fits(before: str, after: str, fits: bool, when_replaced: bool) -> None:
    canonical = query(before).canonical()
    assert state_fits(canonical, query(after)) is fits
    assert state_fits(canonical, query(after, "create  or\nREPLACE")) is when_replaced


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, None),
        ({"application_id": "other"}, "app/{id}/3 holds a commit marker of other/{id}/3"),
        ({"query_id": "other"}, "app/{id}/3 holds a commit marker of app/other/3"),
        ({"state_partition": 2}, "app/{id}/3 holds a commit marker of app/{id}/2"),
        ({"state_partitions": 4}, "state.partitions was 4, is 8"),
        ({"partitioner": "other"}, "the partitioner was other"),
        ({"canonical": "other"}, "it was other, it is another statement now"),
    ],
)
def test_a_marker_is_compared_with_where_it_was_found(
    changed: dict[str, object], told: str | None
) -> None:
    here = query("k, SUM(v) s FROM a GROUP BY k")
    mine = replace(model_marker(0), query_id=here.id, canonical=here.canonical())
    found = replace(mine, **changed)  # type: ignore[arg-type]
    if told is None:
        check_marker(found, here, 8, owner=f"app/{here.id}/3")
        check_marker(None, here, 8, owner=f"app/{here.id}/3")
        return
    with pytest.raises(IncompatibleStatement) as refused:
        check_marker(found, here, 8, owner=f"app/{here.id}/3")
    assert told.format(id=here.id) in refused.value.fact


def marker(of: Query, facts: str | None = None) -> CommitMarker:
    """The marker of the present version; `facts` "": the marker of an earlier version."""
    return CommitMarker(
        FORMAT_VERSION, "app", of.id, 0, 1, PARTITIONER, of.fingerprint(), of.canonical(),
        OffsetRange.of("a", {0: 0}, {0: 9}), 0, 0,
        facts=statement_facts(of) if facts is None else facts,
    )  # fmt: skip


def refusal(before: Query, after: Query) -> str:
    try:
        check_marker(marker(before), after, 1, owner=f"app/{after.id}/0")
    except IncompatibleStatement as error:
        return str(error)
    return ""


FINAL = "k, COUNT(*) s FROM a WINDOW TUMBLING (SIZE 1 MINUTE{}) GROUP BY k EMIT {}"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ((", GRACE PERIOD 60 SECONDS", "FINAL"), (", GRACE PERIOD 0 SECONDS", "FINAL"), "grace_ms"),
        ((", GRACE PERIOD 0 SECONDS", "FINAL"), (", GRACE PERIOD 60 SECONDS", "FINAL"), "grace_ms"),
        (("", "FINAL"), (", RETENTION 2 HOURS", "FINAL"), "retention_ms"),
        (("", "FINAL"), (", GRACE PERIOD 0 SECONDS", "FINAL"), ""),  # the same, written out
        ((", GRACE PERIOD 60 SECONDS", "CHANGES"), (", GRACE PERIOD 0 SECONDS", "CHANGES"),
         "grace_ms"),
        (("", "CHANGES"), (", RETENTION 2 DAYS", "CHANGES"), ""),
        (("", "CHANGES"), (", GRACE PERIOD 86340 SECONDS", "FINAL"), "final"),
        ((", GRACE PERIOD 86340 SECONDS", "FINAL"), ("", "CHANGES"), "final"),
    ],
)  # fmt: skip
def test_when_results_are_told_stays(
    before: tuple[str, str], after: tuple[str, str], told: str
) -> None:
    found = refusal(query(FINAL.format(*before)), query(FINAL.format(*after)))
    assert bool(found) is bool(told)
    assert told in found
    assert query(FINAL.format(*before)).fingerprint() == query(FINAL.format(*after)).fingerprint()


@pytest.mark.parametrize(
    ("before", "after", "told", "when_replaced"),
    [
        ("k, SUM(v) tickets_sold FROM a GROUP BY k", "k, SUM(v) sold FROM a GROUP BY k",
         "SOLD is new; TICKETS_SOLD is gone", False),
        ("k, SUM(v) s FROM a GROUP BY k", "k AS kk, SUM(v) s FROM a GROUP BY k", "KK", False),
        ("k, SUM(v) s FROM a GROUP BY k", "k, SUM(v) + 1 s FROM a GROUP BY k", "SELECT list", True),
        ("k, SUM(v) s FROM a GROUP BY k", "k, SUM(v) s FROM a GROUP BY k HAVING SUM(v) > 1",
         "HAVING", True),
        ("k, SUM(v) s FROM a GROUP BY k", "k, SUM(v) s, SUM(v) s2 FROM a GROUP BY k", "S2", True),
        ("k, SUM(v) s, MAX(v) m FROM a GROUP BY k", "k, MAX(v) m, SUM(v) s FROM a GROUP BY k",
         "columns", False),
        ("t.k, t.v, u.v AS w FROM t JOIN u ON t.k = u.k",
         "t.k, t.v, u.v AS x FROM t JOIN u ON t.k = u.k", "X", False),
        ("t.k, t.v, u.v AS w FROM t JOIN u ON t.k = u.k",
         "t.k, t.v, u.v AS w FROM t JOIN u ON t.k = u.k WHERE t.v > 1", "WHERE", False),
    ],
)  # fmt: skip
def test_rows_of_two_meanings_are_not_mixed(
    before: str, after: str, told: str, *, when_replaced: bool
) -> None:
    assert re.search(told, refusal(query(before), query(after)))
    assert (refusal(query(before), query(after, "CREATE OR REPLACE")) == "") is when_replaced
    assert refusal(query(after), query(after)) == ""


def test_which_windows_final_results_leave_out_stays() -> None:
    final = FINAL.format("", "FINAL")
    every = query(final)
    retained = compile_text(
        f"{SOURCES}SET 'emit.final.after.jump'='retained';\nCREATE TABLE o AS SELECT {final};"
    ).queries[-1]
    assert "within_retention" in refusal(every, retained)
    assert "within_retention" in refusal(retained, every)
    assert refusal(retained, retained) == ""


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (f"CREATE TABLE o AS SELECT {FINAL.format('', 'FINAL')};", "within_retention"),
        ("CREATE TABLE o AS SELECT k, SUM(CAST(v AS DECIMAL(4, 1))) n FROM a GROUP BY k;", "SUM"),
    ],
)
def test_ksqldbs_answers_are_not_those_of_rows_that_are_there(statement: str, told: str) -> None:
    theirs = f"SET 'ksqldb.differences'='none';\n{statement}"
    ours, other = (compile_text(SOURCES + text).queries[-1] for text in (statement, theirs))
    assert told in refusal(ours, other)
    assert told in refusal(other, ours)
    assert refusal(other, other) == ""


def test_ksqldbs_answers_keep_rows_that_are_the_same_in_both() -> None:
    statement = (
        "CREATE TABLE o AS SELECT k, SUM(v) n, MAX(CAST(v AS DECIMAL(4, 1))) m FROM a GROUP BY k;"
    )
    theirs = f"SET 'ksqldb.differences'='none';\n{statement}"
    ours, other = (compile_text(SOURCES + text).queries[-1] for text in (statement, theirs))
    assert refusal(ours, other) == refusal(other, ours) == ""


def test_a_marker_of_a_version_before_tells_nothing_of_it() -> None:
    before, after = (query(f"k, SUM(v) {name} FROM a GROUP BY k") for name in ("n", "m"))
    old = marker(before, facts="")
    check_marker(old, after, 1, owner=f"app/{after.id}/0")
    assert CommitMarker.from_bytes(old.to_bytes().replace(b',"facts":""', b"")) == old
    assert CommitMarker.from_bytes(marker(after).to_bytes()) == marker(after)


def declared(columns: str, rest: str = "") -> Query:
    sql = f"""CREATE STREAM a ({columns}) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON'{rest});
    CREATE TABLE o AS SELECT k, COUNT(v) n FROM a GROUP BY k;"""
    return compile_text(sql).queries[-1]


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (declared("k INT KEY, v INT, t BIGINT, more STRING"), ""),
        (declared("k INT KEY, v INT"), "columns of the source a"),
        (declared("k INT KEY, v STRING, t BIGINT"), "columns of the source a"),
        (declared("k INT KEY, v INT, t BIGINT", ", TIMESTAMP='t'"), "timestamp"),
        (declared("k INT KEY, v INT, t BIGINT", ", KEY_FORMAT='JSON'"), "formats"),
    ],
)
def test_a_source_is_read_as_before(after: Query, told: str) -> None:
    found = refusal(declared("k INT KEY, v INT, t BIGINT"), after)
    assert bool(found) is bool(told)
    assert told in found


@pytest.mark.parametrize(
    ("before", "after", "told", "when_replaced"),
    [
        ("k, v AS n FROM a", "k, v AS n FROM a", "", True),
        ("k, v AS n FROM a", "k, v AS m FROM a", "columns", False),
        ("k, v AS n FROM a", "k, v AS n, v + 1 AS m FROM a", "columns", True),
        ("k, v AS n FROM a", "k, v + 1 AS n FROM a", "SELECT list", True),
        ("k, v AS n FROM a", "k, v AS n FROM a WHERE v > 1", "WHERE", True),
    ],
)
def test_a_query_without_state_keeps_to_what_it_wrote(
    before: str, after: str, told: str, *, when_replaced: bool
) -> None:
    def made(rest: str, create: str = "CREATE") -> Query:
        return compile_text(f"{SOURCES}{create} STREAM o AS SELECT {rest};").queries[-1]

    done = SourceProgress("a", 0, 9, facts=statement_facts(made(before)))
    if told:
        with pytest.raises(IncompatibleStatement, match=told):
            check_progress(done, made(after))
    else:
        check_progress(done, made(after))
    if when_replaced:
        check_progress(done, made(after, "CREATE OR REPLACE"))
    with pytest.raises(IncompatibleStatement, match="it read b, it reads a now"):
        check_progress(SourceProgress("b", 0, 9), made(after))


MOVIES = "k, COUNT(v) n FROM a"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (f"{MOVIES} GROUP BY k", "k, COUNT(v) n, SUM(v + 1) s FROM a GROUP BY k",
         "SUM(V + 1) is new; the output columns differ: S is new"),
        ("k, COUNT(v) n, MAX(v) m, MIN(v) o FROM a GROUP BY k", f"{MOVIES} GROUP BY k",
         "MAX(V) and MIN(V) are gone; the output columns differ: M and O are gone"),
        ("k, TOPK(v, 2) n FROM a GROUP BY k", "k, TOPK(v, 3) n FROM a GROUP BY k",
         "TOPK(V, 3) is new; TOPK(V, 2) is gone"),
        (f"{MOVIES} GROUP BY k", f"{MOVIES} WHERE v > 1 GROUP BY k", "WHERE was none, is V > 1"),
        (f"{MOVIES} WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY k",
         f"{MOVIES} WINDOW HOPPING (SIZE 90 SECONDS, ADVANCE BY 1 SECOND) GROUP BY k",
         "WINDOW was TUMBLING (1 minute), is HOPPING (90 seconds, ADVANCE BY 1 second); "),
        ("k, SUM(v) n FROM a GROUP BY k", "k, SUM(v) + 1 n FROM a GROUP BY k",
         "N in the SELECT list was SUM(V), is CAST((SUM(V) + 1) AS INTEGER)"),
        (f"{MOVIES} GROUP BY k", f"{MOVIES} GROUP BY k HAVING COUNT(v) > 1",
         "HAVING was none, is "),
        ("k, CAST(SUM(v) AS BIGINT) n FROM a GROUP BY k", "k, SUM(v) n FROM a GROUP BY k",
         "the output columns differ: N was BIGINT, is INTEGER"),
    ],
)  # fmt: skip
def test_a_difference_is_told_in_words(before: str, after: str, told: str) -> None:
    found = refusal(query(before), query(after))
    fact = found.splitlines()[0]
    assert told in fact
    assert not set(fact.partition("; the sink changed")[0]) & set('{}"`[]')
    assert len(fact) < 300


@pytest.mark.parametrize("written", ["2.0", "2 "])
def test_a_difference_that_no_words_show_is_refused(written: str) -> None:
    """JSON has texts that differ and values that do not; the text decides."""
    here = query("k, TOPK(v, 2) n FROM a GROUP BY k")
    text = here.canonical()
    other = text.replace("[2]", f"[{written}]")
    assert other != text
    assert json.loads(other) == json.loads(text)
    with pytest.raises(IncompatibleStatement) as refused:
        check_marker(replace(marker(here), canonical=other), here, 1, owner=f"app/{here.id}/0")
    assert f"written by another statement: it was {other}, it is now {text}" in refused.value.fact


def test_results_of_another_version_are_refused() -> None:
    after = query(f"{MOVIES} GROUP BY k")
    facts = json.loads(statement_facts(after))
    facts["results"]["distinct"] = True
    assert rows_differ(json.dumps(facts), after) == [
        "the SELECT list, WHERE or HAVING changed (distinct was true, is null)"
    ]


def test_another_source_is_told_by_name_and_topic() -> None:
    found = refusal(query(f"{MOVIES} GROUP BY k"), declared("k INT KEY, v INT"))
    assert found == ""
    other = "CREATE STREAM b (k INT KEY, v INT) WITH (KAFKA_TOPIC='b', VALUE_FORMAT='JSON');"
    after = compile_text(f"{other} CREATE TABLE o AS SELECT k, COUNT(v) n FROM b GROUP BY k;")
    told = refusal(query(f"{MOVIES} GROUP BY k"), after.queries[-1])
    assert "statement: it read A (topic a), it reads B (topic b); " in told

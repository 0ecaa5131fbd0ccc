"""Words: the longest wins, quotes are doubled, comments are space."""

from __future__ import annotations

import pytest

from holdfast.sql.parse.dialect import RESERVED, WORDS, Kind, UnclosedError, tokenize


def words(text: str) -> list[tuple[Kind, str]]:
    return [(t.kind, t.text) for t in tokenize(text)[:-1]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12", Kind.INTEGER),
        ("12.", Kind.DECIMAL),
        (".12", Kind.DECIMAL),
        ("1e5", Kind.FLOAT),
        ("1.5E-3", Kind.FLOAT),
        ("1e5x", Kind.WORD),
        ("2nd", Kind.WORD),
        ("a@1_b", Kind.WORD),
        ("€", Kind.UNKNOWN),
    ],
)
def test_one_word(text: str, expected: Kind) -> None:
    assert words(text) == [(expected, text)]


def test_quotes() -> None:
    assert words("'it''s' `a``b` \"c\"\"d\" ''") == [
        (Kind.STRING, "it's"),
        (Kind.QUOTED, "a`b"),
        (Kind.QUOTED, 'c"d'),
        (Kind.STRING, ""),
    ]


def test_comments_are_space_and_strings_keep_them() -> None:
    text = "a -- it's one\r\n/* b ; \n c */ '--d' --@directive\n-- last"
    assert words(text) == [(Kind.WORD, "a"), (Kind.STRING, "--d")]


def test_symbols() -> None:
    assert [t.text for t in tokenize("a<>b!=c<=d>=e->f=>g:=h||i<j")[1:-1:2]] == [
        "<>", "!=", "<=", ">=", "->", "=>", ":=", "||", "<",
    ]  # fmt: skip


def test_nested_types_close_one_by_one() -> None:
    assert [t.text for t in tokenize("ARRAY<ARRAY<INT>>")[-3:]] == [">", ">", ""]


@pytest.mark.parametrize(("text", "at"), [("a 'b", 2), ("`a``", 0), ("x /* y", 2), ('"', 0)])
def test_what_is_not_closed(text: str, at: int) -> None:
    with pytest.raises(UnclosedError) as caught:
        tokenize(text)
    assert caught.value.at == at


def test_places_are_offsets_in_the_text() -> None:
    text = "SELECT  `a`, 'b''c' ${v}"
    tokens = tokenize(text)
    assert [text[t.start : t.end] for t in tokens[:-1]] == [
        "SELECT", "`a`", ",", "'b''c'", "${v}",
    ]  # fmt: skip


def test_words_that_name_things_are_not_reserved() -> None:
    assert {"SELECT", "STREAM", "TOPIC", "SIZE", "DAYS"} <= RESERVED
    assert not RESERVED & {"KEY", "DATE", "MAP", "EMIT", "SESSION", "ID", "STRING"}
    assert {"KEY", "CHANGES", "SELECT"} <= WORDS

"""HTML pages that load nothing, so that they can be mailed and kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib import resources

__all__ = ["document", "header", "section", "table"]

_STYLES = ("colors.css", "page.css")


def document(title: str, parts: Iterable[str]) -> str:
    """The whole page; `parts` are HTML."""
    folder = resources.files("holdfast.pages")
    style = "".join(folder.joinpath(name).read_text(encoding="utf-8") for name in _STYLES)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(title)}</title>\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<style>\n{style}</style>\n</head>\n<body>\n<main>\n{''.join(parts)}</main>\n</body>\n"
        "</html>\n"
    )


def header(kind: str, badge: str, title: str, told: str, facts: Mapping[str, object]) -> str:
    """The head of a page; facts without a value are left out.

    Args:
        kind: valid, unknown or invalid; decides the color.
    """
    cells = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(str(v))}</dd></div>"
                    for k, v in facts.items() if str(v).strip())  # fmt: skip
    return (
        f'<header class="{kind}"><p class="badge">{escape(badge)}</p>'
        f"<h1>{escape(title)}</h1>"
        f"<p>{escape(told)}</p><dl>{cells}</dl></header>\n"
    )


def section(title: str, content: str) -> str:
    """A part of the page; `content` is HTML."""
    return f"<section><h2>{escape(title)}</h2>{content}</section>\n"


def table(names: Sequence[str], rows: Iterable[Sequence[object]], numbers: int = 0) -> str:
    """A table; its last `numbers` columns are formatted as numbers."""
    first = len(names) - numbers
    head = "".join(f"<th{_class(i, first)}>{escape(n)}</th>" for i, n in enumerate(names))
    body = "".join("<tr>" + "".join(_cells(row, names, first)) + "</tr>" for row in rows)
    kind = ' class="numbers"' if numbers else ""
    return (
        f'<div class="scroll"><table{kind}><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cells(row: Sequence[object], names: Sequence[str], first: int) -> Iterator[str]:
    for i, (value, name) in enumerate(zip(row, names, strict=True)):
        yield f'<td{_class(i, first)} data-name="{escape(name)}">{escape(str(value))}</td>'


def _class(index: int, first_number: int) -> str:
    return ' class="n"' if index >= first_number else ""

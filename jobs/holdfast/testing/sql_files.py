"""Files of cases in pure SQL: records by INSERT INTO … VALUES, expectations by ASSERT.

A line of dashes, `--@test:` and a name begins a case.  `--@expected.error:` and
`--@expected.message:` mean that its last statement must be refused.  RUN SCRIPT 'file' stands for
the statements of a file beside the case's file or in the folder above.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import InvalidTestCase
from holdfast.testing.cases import Case, Refusal, formats_in

__all__ = ["cases_in", "is_test_file"]

_DIRECTIVE = re.compile(r"^--@(test|expected\.error|expected\.message):[ \t]*(.*)$", re.MULTILINE)
_SCRIPT = re.compile(r"^[ \t]*RUN\s+SCRIPT\s+'([^']+)'\s*;", re.MULTILINE | re.IGNORECASE)


def is_test_file(text: str) -> bool:
    """Whether it has cases, not only statements."""
    return any(found.group(1) == "test" for found in _DIRECTIVE.finditer(text))


def cases_in(text: str, origin: str) -> Iterator[Case]:
    """The cases of a file, in order; text before the first one belongs to none.

    Raises:
        InvalidTestCase: a script that a case runs is not there.
    """
    starts = [found for found in _DIRECTIVE.finditer(text) if found.group(1) == "test"]
    ends = [found.start() for found in starts[1:]] + [len(text)]
    for start, end in zip(starts, ends, strict=True):
        statements = _SCRIPT.sub(lambda found: _script(found[1], origin), text[start.end() : end])
        said = {d.group(1): d.group(2).strip() for d in _DIRECTIVE.finditer(statements)}
        error, message = said.get("expected.error"), said.get("expected.message", "")
        yield Case(
            name=start.group(2).strip(),
            origin=origin,
            statements=statements,
            inputs=(),
            outputs=(),
            refusal=Refusal(error, message) if error is not None else None,
            formats=formats_in(statements),
        )


def _script(name: str, origin: str) -> str:
    folder, below = Path(origin).parent, name.lstrip("/")
    for file in (Path(name), folder / below, folder.parent / below):
        if file.is_file():
            return file.read_text(encoding="utf-8")
    raise InvalidTestCase(
        f"{origin} runs the script {name}, which is not there.",
        action="give a path from the file's folder",
    )

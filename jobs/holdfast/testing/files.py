"""Reads test cases: three files of one case, a file of many, or a folder of either."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import InvalidTestCase
from holdfast.testing.cases import Case, Refusal, Spec, formats_in, record_of, schemas_of
from holdfast.testing.json_text import loads, without_comments
from holdfast.testing.rest.cases import is_rest, rest_of, statements_of_job
from holdfast.testing.sql_files import cases_in, is_test_file

__all__ = ["cases_at", "triple"]

_STATEMENTS, _INPUT, _OUTPUT = "statements.sql", "input.json", "output.json"
_PLACE = "{FORMAT}"
_CONFIG = "{CONFIG}"


def triple(sql: Path, inputs: Path | None, outputs: Path, name: str | None = None) -> Case:
    """The case of ksqlDB's test runner: statements, input records and output records.

    Args:
        inputs: None when the statements insert what they need.

    Raises:
        InvalidTestCase: a file cannot be read, or is malformed.
    """
    statements = _text(sql)
    return Case(
        name=name or sql.stem,
        origin=str(sql),
        statements=statements,
        inputs=() if inputs is None else _records_of_file(inputs, "inputs"),
        outputs=_records_of_file(outputs, "outputs"),
        formats=_formats(statements, {}, ()),
    )


def cases_at(path: Path) -> Iterator[Case]:
    """All cases of a file, or of a folder and its subfolders, in the order of their names.

    Raises:
        InvalidTestCase: as `triple`; or there is no case at all.
    """
    if path.is_file():
        yield from _cases_of_file(path)
        return
    if not path.is_dir():
        raise InvalidTestCase(f"{path} is neither a file nor a folder.")
    found = False
    for file in sorted(path.rglob("*")):
        if file.name == _STATEMENTS:
            inputs = file.with_name(_INPUT)
            folder = str(file.parent.relative_to(path))
            name = folder if folder != "." else file.parent.name
            yield triple(file, inputs if inputs.exists() else None, file.with_name(_OUTPUT), name)
            found = True
        elif file.suffix == ".sql" and is_test_file(_text(file)):
            yield from cases_in(_text(file), str(file))
            found = True
        elif file.suffix == ".json" and not file.with_name(_STATEMENTS).exists():
            yield from _cases_of_file(file)
            found = True
    if not found:
        raise InvalidTestCase(
            f"{path} has no test case.",
            action=f"a case is a folder with {_STATEMENTS}, {_INPUT} and {_OUTPUT}, "
            'or one of {"tests": [...]} in a .json file, or of --@test: NAME in a .sql file',
        )


def _cases_of_file(path: Path) -> Iterator[Case]:
    if path.suffix == ".sql":
        yield from _cases_of_sql(path)
        return
    content = _json(path)
    tests = content.get("tests") if isinstance(content, dict) else None
    if not isinstance(tests, list) or not tests:
        raise InvalidTestCase(f"{path} has no list 'tests'.", action='write {"tests": [...]}')
    for number, node in enumerate(tests):
        if not isinstance(node, dict) or not node.get("name") or not node.get("statements"):
            raise InvalidTestCase(f"{path}: test {number} has no name or no statements.")
        try:
            yield from _variants(node, path)
        except InvalidTestCase as error:  # the file's other cases can still run
            yield Case(str(node["name"]), str(path), "", (), (), wrong=str(error))


def _cases_of_sql(path: Path) -> Iterator[Case]:
    text = _text(path)
    if not is_test_file(text):
        raise InvalidTestCase(
            f"{path} has no line '--@test: NAME'.",
            action="write one before each case, or give the file with -s, -i and -o",
        )
    yield from cases_in(text, str(path))


def _variants(node: Mapping[str, Any], path: Path) -> Iterator[Case]:
    """One case for each format and configuration that the test names."""
    for format_ in node.get("format") or [""]:
        for config in node.get("config") or [""]:
            yield _case(node, path, format_, config)


def _case(node: Mapping[str, Any], path: Path, format_: str, config: str) -> Case:
    marks = [m for m in (format_, config) if m]
    name = " - ".join([node["name"], *marks])
    where = f"{path}, test '{name}'"
    texts = [text.replace(_PLACE, format_) for text in node["statements"]]
    rest = rest_of(node, texts, where) if is_rest(node) else None
    statements = statements_of_job(rest) if rest is not None else "\n".join(texts)
    properties = {
        key: config if value == _CONFIG else _plain(value)
        for key, value in (node.get("properties") or {}).items()
    }
    refusal = node.get("expectedException")
    return Case(
        name=name,
        origin=str(path),
        statements=statements,
        inputs=_records(node.get("inputs") or [], f"{where}: input"),
        outputs=_records(node.get("outputs") or [], f"{where}: output"),
        properties=properties,
        refusal=_refusal(refusal) if refusal is not None else None,
        sources=tuple((node.get("post") or {}).get("sources") or ()),
        rest=rest,
        schemas=tuple(g for topic in node.get("topics") or () for g in schemas_of(topic, where)),
        formats=_formats(statements, properties, node.get("topics") or ()),
        disabled=node.get("enabled", True) is False,
    )


def _refusal(node: Mapping[str, Any]) -> Refusal:
    return Refusal(str(node.get("type", "")), str(node.get("message", "")))


def _plain(value: Any) -> str:
    """A property's value as SET would receive it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _formats(
    statements: str, properties: Mapping[str, str], topics: Sequence[Any]
) -> frozenset[str]:
    named = set(formats_in(statements))
    named |= {v for k, v in properties.items() if k.startswith("ksql.persistence.default.format")}
    for topic in topics:
        if isinstance(topic, dict):
            said = [topic.get(k) for k in ("keyFormat", "valueFormat", "format")]
            named |= {str(f.get("format") if isinstance(f, dict) else f) for f in said if f}
    return frozenset(name.upper() for name in named)


def _records_of_file(path: Path, field: str) -> tuple[Spec, ...]:
    content = _json(path)
    nodes = content.get(field) if isinstance(content, dict) else None
    if not isinstance(nodes, list):
        raise InvalidTestCase(
            f"{path} has no list '{field}'.", action=f'write {{"{field}": [...]}}'
        )
    if not nodes:
        raise InvalidTestCase(
            f"{path}: '{field}' cannot be empty.", action="give at least one record"
        )
    return _records(nodes, f"{path}: record")


def _records(nodes: Sequence[Any], where: str) -> tuple[Spec, ...]:
    return tuple(record_of(node, f"{where} {i}") for i, node in enumerate(nodes))


def _json(path: Path) -> Any:
    try:
        return loads(without_comments(_text(path)))
    except ValueError as error:
        raise InvalidTestCase(f"{path} is not JSON: {error}.") from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidTestCase(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidTestCase(f"{path} is not UTF-8 text (byte {error.start}).") from error

"""The house's style, where no linter sees it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "jobs" / "holdfast"
# 400 is the habit; a whole that is cut in two only to be short is worse than a file of 600.
LINES_PER_FILE = 600
LINES_PER_FUNCTION = 60
# 15 is the habit; a folder with many more no longer tells a reader what is in it.
MODULES_PER_FOLDER = 18

_SOURCES = sorted(PACKAGE.rglob("*.py"))
_DAGS = sorted((ROOT / "dags").rglob("*.py"))
_PYTHON = [*_SOURCES, *sorted((ROOT / "tests").rglob("*.py")), *_DAGS]
# Those that render expressions make the text, and may look at what they put together.
_RENDERERS = (PACKAGE / "sql" / "expressions", PACKAGE / "sql" / "functions")
_UNFINISHED = re.compile(r"\b(TODO|FIXME|HACK)\b")


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _too_long(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > LINES_PER_FUNCTION:
                yield f"{node.name} ({lines} lines)"


def _untold(path: Path, tree: ast.Module) -> Iterator[str]:
    """Whether a module says what it is and what it offers."""
    if not ast.get_docstring(tree):
        yield "it has no docstring"
    if not any(isinstance(n, ast.ImportFrom | ast.FunctionDef | ast.ClassDef) for n in tree.body):
        return  # nothing but its docstring, or the version
    if not any(isinstance(n, ast.ImportFrom) and n.module == "__future__" for n in tree.body):
        yield "it lacks: from __future__ import annotations"
    names = {t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets
             if isinstance(t, ast.Name)}  # fmt: skip
    if path.name != "__main__.py" and "__all__" not in names:
        yield "it has no __all__"


# "Of both the lower", "Who is slow …": a sentence that begins so has to be read twice.
_NO_SUBJECT = re.compile(r"(Of|What|Who|Whose|Whom|For who)\b")
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _unclear(tree: ast.Module) -> Iterator[str]:
    """Docstrings that do not begin with a verb or a noun."""
    docs = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, _DOCUMENTED))
    return (f"unclear: {doc}" for doc in docs if doc and _NO_SUBJECT.match(doc))


_TEXTS = ("sql", "canonical", "released")  # of an `Expression`
_SEARCHES = {"findall", "finditer", "fullmatch", "match", "parse", "parse_one", "search", "split"}


def _searched(tree: ast.AST) -> Iterator[str]:
    """Where code looks into the text of an expression, which says itself what is in it."""
    for node in ast.walk(tree):
        looked: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            held = any(isinstance(o, ast.In | ast.NotIn) for o in node.ops)
            looked = node.comparators if held else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            looked = [*node.args] if node.func.attr in _SEARCHES else []
            looked.append(node.func.value)  # a method of the text
        for each in looked:
            if isinstance(each, ast.Attribute) and each.attr in _TEXTS:
                yield f"line {each.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("name in each.sql", 1), ("re.findall('x', key.sql)", 1), ("_COLUMN.fullmatch(e.sql)", 1),
        ("sqlglot.parse_one(e.canonical, dialect='spark')", 1), ("e.sql.startswith('a')", 1),
        ("name in each.columns", 0), ("frame.where(each.sql)", 0), ("expr(each.sql)", 0),
    ],
)  # fmt: skip
def test_a_search_in_an_expression_is_seen(code: str, found: int) -> None:
    assert len(list(_searched(ast.parse(code)))) == found


def _faults(path: Path) -> Iterator[str]:
    """Yields what the house does not want in a file."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    yield from _unclear(tree)
    if path in _DAGS:
        return
    if text.count("\n") > LINES_PER_FILE:
        yield f"it has more than {LINES_PER_FILE} lines"
    yield from _too_long(tree)
    if not path.is_relative_to(PACKAGE):
        return
    yield from _untold(path, tree)
    yield from (f"left for later: {word}" for word in _UNFINISHED.findall(text))
    if path.parent not in _RENDERERS:
        yield from _searched(tree)


# One test a file, not one a rule and file: they were a third of all tests, and a test has a price.
@pytest.mark.parametrize("path", _PYTHON, ids=_name)
def test_a_file_is_as_the_house_writes_files(path: Path) -> None:
    assert list(_faults(path)) == []


def test_a_folder_holds_what_a_reader_can_take_in() -> None:
    held = Counter(path.parent for path in _SOURCES if path.name != "__init__.py")
    assert {_name(folder): n for folder, n in held.items() if n > MODULES_PER_FOLDER} == {}


def test_every_fault_of_a_file_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.PACKAGE", tmp_path)
    long = "\n".join(f"    a = {n}" for n in range(LINES_PER_FILE))
    bad = f"import re\n# TODO: more\ndef f(x):\n    'Who is it.'\n    x in f.sql\n{long}\n"
    (tmp_path / "bad.py").write_text(bad, encoding="utf-8")
    assert sorted(_faults(tmp_path / "bad.py")) == [
        "f (603 lines)", "it has more than 600 lines", "it has no __all__", "it has no docstring",
        "it lacks: from __future__ import annotations", "left for later: TODO",
        "line 5: x in f.sql", "unclear: Who is it.",
    ]  # fmt: skip


def test_lock_files_name_no_index_and_pin_by_hash() -> None:
    for name in ("requirements-build.lock", "requirements.lock", "requirements-dev.lock"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "://" not in text
        pins = re.findall(r"^[A-Za-z0-9._-]+==\S+.*$", text, flags=re.MULTILINE)
        assert pins
        assert all(pin.rstrip().endswith("\\") for pin in pins), "a pin without a hash"


def test_what_runs_and_what_develops_agree() -> None:
    def pins(name: str) -> set[str]:
        text = (ROOT / name).read_text(encoding="utf-8")
        return set(re.findall(r"^([A-Za-z0-9._-]+==[^\s;]+)", text, flags=re.MULTILINE))

    assert pins("requirements.lock") <= pins("requirements-dev.lock")


def test_every_file_that_tells_the_version_tells_the_package_s() -> None:
    told = {
        "helm/holdfast/Chart.yaml": r"^(?:version|appVersion): \"?([0-9.]+)",
        "helm/holdfast-platform/Chart.yaml": r"^(?:version|appVersion): \"?([0-9.]+)",
        "k8s/airflow/values.yaml": r"(?:ref: v|holdfast:)([0-9]+\.[0-9.]+[0-9])",
        "dags/holdfast_airflow/environment.py": r"holdfast:([0-9.]+)",
    }
    for name, pattern in told.items():
        found = re.findall(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
        assert found, name
        assert set(found) == {holdfast.__version__}, name
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[([^\]]+)\]", log, re.MULTILINE)
    assert released[0] == "Unreleased"
    assert set(released[1:2]) <= {holdfast.__version__}


def test_images_are_labelled_with_what_they_are() -> None:
    for file in (ROOT / "k8s" / "images").glob("*/Dockerfile"):
        text = file.read_text(encoding="utf-8")
        last = text[text.rindex("\nFROM") :]
        assert "LABEL org.opencontainers.image.title=" in last, file.parent.name
        assert re.search(r"image\.description=\".+\" .*image\.licenses=\".+\"\n", last, re.DOTALL)
    build = (ROOT / "k8s" / "images" / "build").read_text(encoding="utf-8")
    for label in ("version", "revision", "base.name", "base.digest"):
        assert f"org.opencontainers.image.{label}=" in build


def test_every_version_has_its_notes_for_upgrades() -> None:
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    notes = (ROOT / "jobs" / "docs" / "releases.md").read_text(encoding="utf-8")
    told = re.findall(r"^### (\S+), from ([0-9.]+)$", notes, re.MULTILINE)
    versions = re.findall(r"^## \[([^\]]+)\]", log, re.MULTILINE)
    assert [version for version, _ in told] == versions
    kept = ROOT / "tests" / "integration" / "upgrade" / "releases"
    assert {before for _, before in told} <= {folder.name for folder in kept.iterdir()}

"""README and the pages of jobs/docs: links lead somewhere, and commands are ones that are there."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from holdfast.cli.docs import PAGES as NAMED
from holdfast.cli.docs import folder
from holdfast.cli.main import cli, main
from holdfast.config.table import markdown
from tests.support import doc_commands
from tests.support.doc_commands import (
    ELSEWHERE,
    LANGUAGES,
    PAGES,
    ROOT,
    SCENES,
    Command,
    blocks,
    commands,
    make_workspace,
    simple_commands,
)

README = ROOT / "README.md"
LINES_OF_README = 200
OTHER_TOOLS = frozenset({"source", "curl", "python", "helm", "kubectl", ".ci/airflow"})
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=\S*")
_SHOWN = sorted({command.text for command in commands()})
_DOCUMENTS = sorted(ROOT.glob("*.md")) + [
    page
    for folder_ in ("dags", "helm", "jobs", "k8s", "tests")
    for page in sorted((ROOT / folder_).rglob("*.md"))
]


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_workspace(tmp_path_factory.mktemp("docs"))


def _anchors(page: Path) -> set[str]:
    """The anchors that a page's headings have on the usual hosts."""
    text = re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    titles = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def _broken(page: Path) -> Iterator[str]:
    for link in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            yield link


@pytest.mark.parametrize("page", _DOCUMENTS, ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    assert list(_broken(page)) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("# One two\n[a](a.md) [b](b.md) [c](#one-two) [d](a.md#three) `[e](e.md)`\n")
    assert list(_broken(page)) == ["b.md", "a.md#three"]


def test_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= LINES_OF_README


def test_readme_and_help_name_every_page_with_the_same_words() -> None:
    row = re.compile(r"^\| \[.*?\]\(jobs/docs/(\S+\.md)\) \| (.*) \|$", re.MULTILINE)
    index = row.findall(README.read_text(encoding="utf-8"))
    assert dict(index) == NAMED
    assert [name for name, _ in index] == list(NAMED)
    assert set(NAMED) == {path.name for path in (ROOT / "jobs" / "docs").glob("*.md")}


def test_help_says_where_the_pages_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    told = capsys.readouterr().out
    assert folder() == ROOT / "jobs" / "docs"
    assert f"Pages in {ROOT / 'jobs' / 'docs'}:" in told
    assert all(name in told for name in NAMED)


def test_readme_has_the_order_of_the_layers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = [
        contract["layers"]
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers" and contract["containers"] == ["holdfast"]
    ]
    found = re.search(r"only from those below it:\n((?: +[a-z_ ]+\n)+)", README.read_text("utf-8"))
    assert found is not None
    assert found[1].split() == layers


def test_the_table_of_properties_is_the_one_that_config_prints() -> None:
    page = (ROOT / "jobs" / "docs" / "tuning.md").read_text(encoding="utf-8")
    with_table = runpy.run_path(str(ROOT / ".ci" / "tuning-page"))["with_table"]
    assert markdown() in page
    assert with_table(page) == page, "make docs"
    assert with_table(page.replace(markdown(), "| stale |\n")) == page


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_fences_say_what_they_hold(page: Path) -> None:
    fences = re.findall(r"^\s*```", page.read_text(encoding="utf-8"), re.MULTILINE)
    found = list(blocks(page))
    assert len(fences) == 2 * len(found)
    assert {block.language for block in found} <= LANGUAGES
    for block in found:
        if block.language == "python":
            compile(block.text, str(page), "exec")


def test_every_command_is_run_by_a_test_and_no_other_is_named() -> None:
    run = [text for scene in SCENES.values() for text in scene]
    assert sorted({*run, *ELSEWHERE}) == _SHOWN
    assert len(run) == len(set(run))
    assert not {*run} & {*ELSEWHERE}


@pytest.mark.parametrize("test", sorted(set(ELSEWHERE.values())))
def test_tests_that_run_commands_are_there(test: str) -> None:
    path, name = test.split("::")
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)


def _parse(words: list[str]) -> click.Context:
    """Parses a command of ours down to the last group's command, and runs nothing."""
    context = cli.make_context("holdfast", words, obj={})
    while isinstance(context.command, click.Group):
        rest = [*context._protected_args, *context.args]
        name, command, rest = context.command.resolve_command(context, rest)
        assert command is not None
        context = command.make_context(name, rest, parent=context)
    return context


def _check_line(text: str) -> None:
    for words in simple_commands(text):
        _check(words)


def _check(words: list[str]) -> None:
    while words and _ASSIGNED.fullmatch(words[0]):
        words = words[1:]
    if not words or words[0] in OTHER_TOOLS:
        return
    if words[0] == "make":
        _check_make(words[1:])
    else:
        assert words[0] == "holdfast"
        _parse(words[1:])


def _check_make(words: list[str]) -> None:
    """Is it a target with variables that the Makefile reads, and can make plan it?"""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    for name in (word.partition("=")[0] for word in words if "=" in word):
        assert re.search(rf"^{name} \?=", text, re.MULTILINE), name
    plan = ["make", "--dry-run", "SHELL=/bin/true", *words]
    done = subprocess.run(plan, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", _SHOWN)
def test_every_command_parses(text: str, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workspace)
    _check_line(text)


@pytest.mark.parametrize(
    "text",
    [
        "holdfast nonsense",
        "holdfast run a.sql --nonsense",
        "holdfast version && holdfast kafka begin",
        "kubectl exec a -- holdfast pause --nonsense",
        "make nonsense",
        "make chaos NONSENSE=1",
        "nonsense",
    ],
)
def test_a_command_that_is_not_there_is_found(
    text: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace)
    with pytest.raises((click.ClickException, AssertionError)):
        _check_line(text)


def test_arguments_of_benchmarks_parse() -> None:
    from tests.bench.__main__ import main as bench
    from tests.bench.measure import profiling
    from tests.bench.serving import run as serving

    tools: dict[str, tuple[click.Command, str]] = {
        "bench": (bench, "BENCH_ARGS"),
        "bench-serving": (serving.main, "BENCH_ARGS"),
        "profile": (profiling.main, "PROFILE_ARGS"),
    }
    seen = set()
    for text in _SHOWN:
        words = shlex.split(text)
        if words[0] == "make" and words[1] in tools:
            tool, variable = tools[words[1]]
            given = dict(word.split("=", 1) for word in words[2:])
            assert set(given) <= {variable}
            tool.make_context(words[1], shlex.split(given.get(variable, "")))
            seen.add(words[1])
    assert seen == set(tools)


def test_lines_become_commands(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```bash\nmake a    # b's\n\n# none\nholdfast b \\\n  --c 'd # e\nf'   # g\n```\n"
        "```json x.json\n{}\n```\n```sql\nSELECT 1;\n```\n",
        encoding="utf-8",
    )
    found = list(commands(page))
    assert found == [Command(page, "make a"), Command(page, "holdfast b --c 'd # e\nf'")]
    assert [(b.language, b.file, b.text) for b in blocks(page)][1:] == [
        ("json", "x.json", "{}\n"),
        ("sql", "", "SELECT 1;\n"),
    ]
    assert list(doc_commands.simple_commands("a b && kubectl c -- d 'e && f'")) == [
        ["a", "b"],
        ["kubectl", "c"],
        ["d", "e && f"],
    ]

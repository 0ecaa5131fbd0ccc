"""The page loads nothing from anywhere else, and holds no code where its policy allows none."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import PurePosixPath

import pytest

from holdfast.serve.console.files import INDEX, PAGE_POLICY, REPORT_POLICY, static_files

FILES = static_files()
TEXTS = {name: file.body.decode() for name, file in FILES.items()}
SCRIPTS = sorted(name for name in FILES if name.endswith(".js"))


class Page(HTMLParser):
    """The page's requests, and its inline code and style."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.inline: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.asked += [v for n in ("src", "href") if (v := given.get(n)) and not v.startswith("#")]
        self.inline += [n for n in given if n.startswith("on") or n == "style"]
        if tag == "style" or (tag == "script" and "src" not in given):
            self.inline.append(tag)
        self.ids += [v for n, v in attrs if n == "id" and v]


@pytest.fixture(scope="module")
def page() -> Page:
    page = Page()
    page.feed(TEXTS[INDEX])
    return page


def test_the_page_asks_for_files_that_are_there(page: Page) -> None:
    assert page.asked
    assert all(url.startswith("/console/static/") for url in page.asked)
    assert {url.removeprefix("/console/static/") for url in page.asked} <= set(FILES)


def test_the_page_has_no_code_and_no_style_inside(page: Page) -> None:
    assert page.inline == []
    assert "unsafe" not in PAGE_POLICY
    assert "script" not in REPORT_POLICY


@pytest.mark.parametrize("name", sorted(FILES))
def test_nothing_names_another_server(name: str) -> None:
    urls = re.findall(r"(?:https?:)?//[\w.-]+\.[a-z]{2,}[^\s\"')]*", TEXTS[name])
    assert [u for u in urls if not u.startswith("http://www.w3.org/")] == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_modules_import_what_is_there_and_use_what_they_import(name: str) -> None:
    text = TEXTS[name]
    imports = re.findall(r'^import (.+?) from "(.+?)";$', text, flags=re.MULTILINE)
    assert text.count("\nimport ") + text.startswith("import ") == len(imports)
    for names, path in imports:
        parts: list[str] = []
        for part in (PurePosixPath(name).parent / path).parts:
            parts = parts[:-1] if part == ".." else [*parts, part]
        target = "/".join(parts)
        assert target in FILES, path
        for one in names.strip("{} ").split(", "):
            assert len(re.findall(rf"\b{one}\b", text)) > 1, f"{one} is not used"
            if names.startswith("{"):
                assert re.search(rf"^export .*\b{one}\b", TEXTS[target], flags=re.MULTILINE), one


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_module_makes_elements_or_code_of_text(name: str) -> None:
    assert re.findall(r"innerHTML|outerHTML|insertAdjacent|\beval\b|new Function|document\.write",
                      TEXTS[name]) == []  # fmt: skip
    assert TEXTS[name].count("\n") <= 400
    assert TEXTS[name].startswith("// "), "a first line says what it is"


def test_elements_that_scripts_look_for_are_in_the_page(page: Page) -> None:
    wanted = {i for s in SCRIPTS for i in re.findall(r'getElementById\("([\w-]+)"\)', TEXTS[s])}
    assert wanted
    assert wanted <= set(page.ids)


def test_tags_tell_contents_apart() -> None:
    assert len({file.tag for file in FILES.values()}) == len(FILES)

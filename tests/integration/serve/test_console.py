"""The console in a real browser, served by a real query server over tables in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from holdfast.local.broker import BrokerStatus
from holdfast.serve.console.app import Console
from holdfast.serve.console.jobs import Beside
from holdfast.serve.http.guard.access import token_hash
from holdfast.serve.query import QueryEngine
from holdfast.serve.query.streams import Streams
from holdfast.transport.cluster.admin import Admin
from holdfast.types.snapshots import SnapshotState
from tests.support.browser import Chromium, Page
from tests.support.console.driver import DriverOf
from tests.support.console.home import CHAOS_RUN, PLAN_RUN, write_chaos_run, write_plan
from tests.support.console.world import World
from tests.support.serve.http_world import Served, served

PHONE = {"width": 390, "height": 844}
BIG = 2**60 + 1  # no number of JavaScript's
VIEWS = {
    "tables": "Tables & queries",
    "rows": "Rows",
    "sql": "SQL",
    "topics": "Topics",
    "partitions": "State partitions",
    "activity": "Activity",
    "jobs": "Jobs",
    "compaction": "Changelog compaction",
    "chaos": "Chaos runs",
}


@dataclass
class Shop:
    """A server with something in every view."""

    server: Served
    world: World
    driver: DriverOf
    console: Console

    def put(self, *args: Any) -> None:
        self.server.loop.call_soon_threadsafe(self.world.put, *args)

    def look(self) -> None:
        """A sample, at once."""
        asyncio.run_coroutine_threadsafe(self.console.sample(), self.server.loop).result(20)


def filled() -> World:
    world = World()
    for number in range(120):
        world.put("PER_CUSTOMER", [f"k{number:03}"], [number, BIG])
    for city in ("Bern", "Oslo"):
        world.put("PER_CITY", [city], [1, 10])
    world.put("PER_PRODUCT_MINUTE", ["tea", 60_000, 120_000], [1, 10])
    return world


def make_topics(brokers: str) -> None:
    """Orders in their topic, and a dead letter."""
    admin = Admin({"bootstrap.servers": brokers})
    for name, partitions in (("shop_orders", 4), ("shop-dead-letter", 1)):
        if admin.describe(name) is None:
            admin.create_topic(name, partitions)
    producer = Producer({"bootstrap.servers": brokers})
    for number in range(3):
        order = {"customer": f"k{number}", "product": "tea", "amount": BIG, "ts": 1_000}
        producer.produce("shop_orders", json.dumps(order), f"k{number}", partition=0)
    reason: dict[str, str | bytes | None]
    reason = {"holdfast.reason": b"value: not valid JSON at character 3"}
    producer.produce("shop-dead-letter", "{x", headers=reason)
    producer.flush()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, kafka: BrokerStatus) -> Iterator[Shop]:
    make_topics(kafka.bootstrap_servers)
    home = tmp_path_factory.mktemp("home")
    write_chaos_run(home)
    write_plan(home)
    world = filled()
    driver = DriverOf(world, lag=12_345)
    console = Console(world.serving(home, kafka.bootstrap_servers), Beside([driver.url]))
    streams = Streams({"bootstrap.servers": kafka.bootstrap_servers})
    engine = {"queries": lambda s: QueryEngine(s.catalog, s.reader, None, streams)}
    with served(home, mounts={"/console": console}, world=world, **engine) as server:
        found = Shop(server, world, driver, console)
        for _ in range(3):
            driver.batch(4_000, seconds=0.5, commit_seconds=0.02)
            found.look()
        yield found


@pytest.fixture
def page(chromium: Chromium, shop: Shop) -> Iterator[Page]:
    """A tab; whatever a test did there, nothing went wrong and nothing left the origin."""
    with chromium.page() as tab:
        yield tab
        assert tab.troubles == []
        assert [u for u in tab.urls if not u.startswith((shop.server.url, "about:"))] == []


def go(page: Page, shop: Shop, view: str) -> None:
    page.open(f"{shop.server.url}/console/#/{view}")


def says(page: Page, text: str) -> None:
    page.wait(f"document.querySelector('main').innerText.includes({text!r})", f"says {text!r}")


@pytest.mark.parametrize("form", ["light", "dark", "phone"])
def test_every_view_shows_what_there_is(chromium: Chromium, shop: Shop, form: str) -> None:
    size = PHONE if form == "phone" else {}
    with chromium.page(dark=form == "dark", **size) as page:
        for view, title in VIEWS.items():
            go(page, shop, view)
            page.wait(f"document.querySelector('h1')?.innerText === {title!r}", view)
            page.wait("!document.querySelector('.loading')")
            assert page.text("nav [aria-current]").strip() == view.title().replace("Sql", "SQL")
            assert page.run("document.documentElement.scrollWidth <= innerWidth"), view
            right = "document.querySelector('nav [aria-current]').getBoundingClientRect().right"
            assert page.run(f"{right} <= innerWidth + 1"), f"{view} is out of sight"
        assert page.troubles == []
        assert page.run("document.title") == "Chaos runs · Holdfast"
        assert all(u.startswith((shop.server.url, "about:")) for u in page.urls)


def test_the_topology_is_drawn_and_tells_of_its_steps(page: Page, shop: Shop) -> None:
    go(page, shop, "tables")
    page.wait("document.querySelectorAll('.node').length > 12")
    drawn = page.text(".topology")
    for text in ("ORDERS", "WHERE", "GROUP BY", "LEFT JOIN", "HAVING", "PER_CITY"):
        assert text in drawn
    overlaps = """(() => { const r = [...document.querySelectorAll('.node rect')].map(e =>
      e.getBoundingClientRect()); return r.some((a, i) => r.some((b, j) => i < j && a.x < b.right
      && b.x < a.right && a.y < b.bottom && b.y < a.bottom)) })()"""
    assert page.run(overlaps) is False
    page.click("[data-id='ctas_per_city:step'] rect")
    says(page, "COUNT(*); SUM(AMOUNT)")
    says(page, "12.3K")  # the lag that the driver tells
    says(page, "running")


def test_a_table_has_its_statement_columns_and_part_of_the_topology(page: Page, shop: Shop) -> None:
    go(page, shop, "tables/PER_PRODUCT_MINUTE")
    says(page, "WINDOW TUMBLING")
    assert page.count(".node") == 4
    says(page, "shop-ctas_per_product_minute-changelog")
    page.click("summary")
    says(page, "Sub-topology 1")


def test_rows_are_paged_and_searched(page: Page, shop: Shop) -> None:
    go(page, shop, "rows/PER_CUSTOMER")
    page.wait("document.querySelectorAll('.grid tbody tr').length === 50")
    assert str(BIG) in page.text(".grid")
    first = page.text(".grid tbody tr")
    page.click(".pager button:nth-child(2)")
    page.wait("document.querySelector('.pager').innerText.includes('Page 2')")
    assert page.text(".grid tbody tr") != first
    page.key("/")
    page.write("k07*")
    page.key("Enter")
    page.wait("document.querySelectorAll('.grid tbody tr').length === 10")
    page.run("document.querySelector('[data-search]').value = 'k042'")
    page.key("Enter")
    page.wait("document.querySelectorAll('.grid tbody tr').length === 1")
    assert "k042" in page.text(".grid tbody")
    page.run("document.querySelector('[data-search]').value = 'nobody'")
    page.key("Enter")
    says(page, "No such key")


def test_live_changes_arrive_as_they_are_committed(page: Page, shop: Shop) -> None:
    go(page, shop, "rows/PER_CITY/live")
    says(page, "Waiting for changes")
    page.wait("document.querySelector('.pill.live')")
    shop.put("PER_CITY", ["Rome"], [7, BIG])
    says(page, "Rome")
    assert str(BIG) in page.text(".grid")
    shop.put("PER_CITY", ["Rome"], None)
    says(page, "removed")
    says(page, "2 changes")
    page.click(".head button")
    shop.put("PER_CITY", ["Riga"], [1, 1])
    says(page, "3 changes")
    assert "Riga" not in page.text(".grid"), "paused"


def test_text_in_rows_is_never_markup(page: Page, shop: Shop) -> None:
    evil = "<img src=x onerror=document.title='x'>"
    shop.put("PER_CITY", [evil], [1, 1])
    go(page, shop, "rows/PER_CITY")
    says(page, evil)
    assert page.count("main img") == 0
    shop.put("PER_CITY", [evil], None)


def test_pull_and_push_queries_are_answered(page: Page, shop: Shop) -> None:
    go(page, shop, "sql")
    page.wait("document.activeElement.tagName === 'TEXTAREA'")

    def write(statement: str) -> None:
        page.run(f"document.querySelector('textarea').value = {statement!r}")
        page.run("document.querySelector('textarea').focus()")
        page.key("Enter", ctrl=True)

    write("SELECT CITY, TOTAL + 1 AS NEXT FROM PER_CITY WHERE CITY = 'Oslo';")
    says(page, "1 row ")
    assert "11" in page.text(".grid tbody")
    says(page, "up to date with the changelog")
    write("SELECT * FROM NOWHERE;")
    page.wait("document.querySelector('main .notice.invalid')?.innerText.includes('NOWHERE')")
    write("SELECT * FROM PER_CITY EMIT CHANGES;")
    page.wait("document.querySelector('.pill.live')")
    shop.put("PER_CITY", ["Lima"], [5, 50])
    says(page, "Lima")
    page.key("Escape")
    says(page, "stopped")
    assert page.count(".history li") == 3
    go(page, shop, "tables")
    page.wait("document.querySelectorAll('.node').length > 12")
    go(page, shop, "sql")
    page.wait("document.querySelector('textarea')?.value.includes('EMIT CHANGES')")
    shop.put("PER_CITY", ["Lima"], None)
    # What is refused is an answer of the server's, which the browser notes as a failed request.
    assert len([t for t in page.troubles if "/v1/query" in t]) == 1
    page.troubles.clear()


def test_partitions_show_owners_copies_and_restores(page: Page, shop: Shop) -> None:
    shop.world.other_behind = 10
    try:
        go(page, shop, "partitions/PER_CUSTOMER")
        page.wait("document.querySelectorAll('main tbody tr').length === 4")
        says(page, "volume 1")
        says(page, "up to date")
        page.wait("/\\d+ %/.test(document.querySelector('td:last-child').innerText)")
        assert page.count("[role=meter]") == 8
        page.wait("document.querySelector('#health').innerText === 'restoring'")
    finally:
        shop.world.other_behind = 0


@pytest.mark.parametrize(
    ("taken", "text"),
    [
        (SnapshotState(), "snapshot: none yet"),
        (SnapshotState(error="The bucket is gone."), "snapshot: failing"),
        (SnapshotState(10, 1_000, 12 << 20), "days ago, 12.0 MiB, 50 behind"),
        (SnapshotState(10_000, 1_000, 12 << 20, error="Gone."), "12.0 MiB, up to date, failing"),
    ],
)
def test_partitions_show_their_newest_snapshot(
    page: Page, shop: Shop, taken: SnapshotState, text: str
) -> None:
    shop.driver.snapshot = taken
    try:
        shop.look()
        go(page, shop, "partitions/PER_CUSTOMER")
        says(page, text)
        title = taken.error or ("changelog offset 10" if taken.offset == 10 else "")
        assert not title or page.count(f"[title='{title}']") == 4
    finally:
        shop.driver.snapshot = None


def test_activity_is_drawn_over_time(page: Page, shop: Shop) -> None:
    go(page, shop, "activity")
    page.wait("document.querySelectorAll('.chart').length === 7")
    series = "[...document.querySelectorAll('.chart:first-child .series')]"
    lines = f"{series}.map(e => e.getAttribute('d').length)"
    page.wait(f"Math.max(...{lines}) > 10")
    assert "ctas_per_city" in page.run("document.querySelector('.chart svg').ariaLabel")
    before = page.run(f"Math.max(...{lines})")
    shop.driver.batch(4_000, seconds=0.5, commit_seconds=0.02)
    shop.look()
    page.wait(f"Math.max(...{lines}) > {before}", "the line grows")


def test_a_value_that_stands_alone_is_a_dot(page: Page, shop: Shop) -> None:
    for _ in range(12):
        shop.look()
    shop.driver.batch(4_000, seconds=0.5, commit_seconds=0.02)
    for _ in range(12):
        shop.look()
    go(page, shop, "activity")
    page.wait("document.querySelectorAll('.chart:nth-child(3) .dot').length > 0", "a lone batch")


def test_a_drag_over_a_plot_zooms_every_plot(page: Page, shop: Shop) -> None:
    go(page, shop, "activity")
    page.wait("document.querySelectorAll('.chart').length === 7")
    span = "[...document.querySelectorAll('.chart:nth-child(2) .axis')].at(-1).textContent"
    before = page.run(span)
    page.drag(".chart svg", 0.3, 0.6)
    page.wait(f"{span} !== {before!r}", "another time at the right edge")
    page.wait("document.querySelector('.title button:not([hidden])').innerText.includes('–')")
    page.click(".title button")
    page.wait("document.querySelector('.title button').hidden")


def test_a_wide_topology_is_scrolled_and_can_be_fitted(chromium: Chromium, shop: Shop) -> None:
    with chromium.page(width=PHONE["width"], height=PHONE["height"]) as page:
        go(page, shop, "tables")
        page.wait("document.querySelectorAll('.node').length > 12")
        inside = "(e => e.scrollWidth - e.clientWidth)(document.querySelector('.topology'))"
        page.wait(f"{inside} > 0", "more than the phone shows")
        says(page, "scroll sideways for more")
        page.click(".zoom button[title='Show all of it']")
        page.wait(f"{inside} <= 0", "all of it")
        assert page.run("document.documentElement.scrollWidth <= innerWidth")


def test_a_stream_is_asked_for_its_records(page: Page, shop: Shop) -> None:
    go(page, shop, "tables/ORDERS")
    says(page, "Nothing asked yet")
    page.click("[aria-label='Records of ORDERS'] .tools button")
    says(page, str(BIG))
    says(page, "complete")
    page.click("[aria-label='Records of ORDERS'] .tools button:nth-child(2)")
    page.wait("document.querySelector('.pill.live')")
    page.click("[aria-label='Records of ORDERS'] .tools button:nth-child(3)")
    says(page, "stopped")


def test_messages_are_shown_with_headers_and_dead_letters_with_their_reason(
    page: Page, shop: Shop
) -> None:
    go(page, shop, "topics")
    page.wait("document.querySelectorAll('tbody tr').length > 5")
    assert page.text("tr .pill") == "dead letters"
    go(page, shop, "topics/shop-dead-letter")
    page.wait("document.querySelector('.message')")
    assert page.text(".reason") == "value: not valid JSON at character 3"
    page.click(".message summary")
    says(page, "header holdfast.reason")
    go(page, shop, "topics/shop_orders/0")
    page.wait("document.querySelectorAll('.message').length >= 3")
    page.click(".message summary")
    says(page, f'"amount": {BIG}')
    says(page, "shop-ctas_per_customer")


def test_times_tell_their_zone(page: Page, shop: Shop) -> None:
    page.call("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
    go(page, shop, f"chaos/{CHAOS_RUN}")
    says(page, "1970-01-01 05:46:40 +05:30")


def test_plans_and_verdicts_are_told_with_their_reports(page: Page, shop: Shop) -> None:
    go(page, shop, "compaction")
    page.wait(f"document.querySelector('tbody a')?.innerText === {PLAN_RUN!r}")
    page.click("tbody a")
    says(page, "three quarters are superseded")
    says(page, "put back")
    go(page, shop, "chaos")
    page.wait(f"document.querySelector('tbody a')?.innerText === {CHAOS_RUN!r}")
    page.click("tbody a")
    says(page, "1 of 10 keys comes from nowhere")
    says(page, "k<1>")
    report = page.run("document.querySelector('main .title a[target]').href")
    page.open(report)
    page.wait("document.body.innerText.includes('All of it.')")


def test_the_keyboard_is_enough(page: Page, shop: Shop) -> None:
    go(page, shop, "tables")
    page.wait("document.querySelectorAll('.node').length > 12")
    for number, title in enumerate(VIEWS.values(), 1):
        page.run("document.activeElement.blur()")
        page.key(str(number))
        page.wait(f"document.querySelector('h1')?.innerText === {title!r}", f"key {number}")
    page.key("1")
    page.wait("document.querySelectorAll('.node').length > 12")
    page.run("document.querySelector(\"[data-id='ctas_per_city:step']\").focus()")
    page.key("ArrowRight")
    assert page.run("document.activeElement.dataset.id") == "relation:PER_CITY"
    page.key("Enter")
    page.wait("document.querySelector('.node-facts a')?.innerText === 'PER_CITY'")
    page.run("document.activeElement.blur()")
    page.key("?")
    page.wait("document.querySelector('#help').open")
    page.key("3")
    assert page.run("location.hash") == "#/tables", "a dialog keeps its keys"
    page.key("Escape")
    page.wait("!document.querySelector('#help').open")


def test_tab_leads_from_link_to_link_and_each_has_a_name(page: Page, shop: Shop) -> None:
    go(page, shop, "tables")
    page.wait("document.querySelectorAll('tbody tr').length > 5")
    seen = []
    for _ in range(12):
        page.key("Tab")
        seen.append(
            page.run("""(() => { const e = document.activeElement;
            return e.getAttribute('aria-label') || e.innerText.trim() })()""")
        )
    assert all(seen), seen
    assert seen[0] == "Skip to the content"
    assert "Tables" in seen
    assert "SQL" in seen
    nameless = """[...document.querySelectorAll(
      'a, button, input, select, textarea, [role=button]')]
      .filter(e => !(e.ariaLabel || e.innerText || e.labels?.length || e.textContent.trim()))
      .map(e => e.outerHTML)"""
    for view, title in VIEWS.items():
        go(page, shop, view)
        page.wait(f"document.querySelector('h1')?.innerText === {title!r}")
        assert page.run(nameless) == []


def test_focus_and_open_details_outlive_what_is_drawn_again(page: Page, shop: Shop) -> None:
    go(page, shop, "partitions")
    page.wait("document.querySelectorAll('main tbody tr').length === 12")
    page.run("window.kept = document.querySelector('main .scroll'); kept.focus()")
    shop.world.other_behind = 3
    page.wait("document.querySelector('td:last-child').innerText.includes('%')", "drawn again")
    assert page.run("document.activeElement === kept && kept.isConnected")
    shop.world.other_behind = 0


def test_with_tokens_the_page_asks_for_one_and_shows_only_what_it_may(
    chromium: Chromium, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens.toml"
    guest = f'name = "guest"\ntoken_sha256 = "{token_hash("guest-token")}"\nread = ["PER_CITY"]'
    tokens.write_text(f"[[client]]\n{guest}\n")
    audit = tmp_path / "audit.jsonl"
    world = filled()
    console = Console(world.serving(tmp_path))
    engine = {"queries": lambda s: QueryEngine(s.catalog, s.reader)}
    mounts = {"/console": console}
    with (
        served(
            tmp_path, mounts=mounts, world=world, tokens=tokens, audit=audit, **engine
        ) as server,
        chromium.page() as page,
    ):
        page.open(f"{server.url}/console/#/rows")
        given = {
            "wrong": "document.querySelector('#login-why').textContent.includes('not accepted')",
            "guest-token": "!document.querySelector('#login').open",
        }
        for token, then in given.items():
            page.wait("document.querySelector('#login').open")
            page.run("document.querySelector('#token').focus()")
            page.write(token)
            page.key("Enter")
            page.wait(then)
        says(page, "Oslo")
        assert page.run("[...document.querySelectorAll('option')].map(o => o.value)") == [
            "PER_CITY"
        ]
        page.open(f"{server.url}/console/#/rows/PER_CUSTOMER")
        says(page, "or you may not read it.")
        page.open(f"{server.url}/console/#/tables/PER_CITY")
        says(page, "What it means")
        assert "placed" not in page.run("document.querySelector('main').textContent").lower()
        page.open(f"{server.url}/console/#/chaos")
        says(page, "may not read all of them")
        assert "guest-token" not in page.run("document.cookie + JSON.stringify({...localStorage})")
    lines = audit.read_text()
    assert '"console: rows of PER_CITY"' in lines
    assert '"who":"guest"' in lines
    assert "guest-token" not in lines


def test_a_server_that_goes_away_is_told_and_found_again(
    chromium: Chromium, tmp_path: Path
) -> None:
    world = filled()
    mounts = {"/console": Console(world.serving(tmp_path))}
    with chromium.page() as page:
        with served(tmp_path, mounts=mounts, world=world) as server:
            page.open(f"{server.url}/console/#/partitions")
            page.wait("document.querySelectorAll('main tbody tr').length === 12")
        page.wait("document.querySelector('.trouble')?.innerText.includes('does not answer')")
        assert page.count("main tbody tr") == 12, "what was known stays to be read"
        with served(tmp_path, mounts=mounts, world=world, port=server.port):
            page.wait("!document.querySelector('.trouble')", "it goes on by itself")

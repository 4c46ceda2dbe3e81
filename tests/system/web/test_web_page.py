"""The page of the dashboard in a real browser, on a large site in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from system.web.conftest import Served, Window
from system.web.crowd import HOSTILE, Crowd
from unit.cli.fake_budgets import W
from waiting import wait_until

from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from playwright.sync_api import Page

PHONE = {"width": 390, "height": 844}
PAGES = ("", "nodes", "jobs", "timeline", "budget", "job/1")

Start = Callable[..., Served]
Open = Callable[..., Window]
Serve = Callable[[Crowd], str]


def ready(page: Page) -> Page:
    page.get_by_role("heading", name="Power now").wait_for()
    return page


def rows_shown(page: Page) -> list[str]:
    """Return the first cells of the rows in view, in order."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll(".row")]
            .filter((row) => row.style.display !== "none")
            .sort((a, b) => a.ariaRowIndex - b.ariaRowIndex)
            .map((row) => row.firstChild.textContent)"""
    )
    return found


def test_the_page_shows_a_large_site(
    start_dashboard: Start, open_window: Open, serve_crowd: Serve
) -> None:
    served = start_dashboard(serve_crowd(Crowd()))
    page = ready(open_window(served.link).page)
    assert page.get_by_role("button", name="waiting 9,200").is_visible()
    assert page.get_by_role("application", name="Map of 1000 nodes").is_visible()
    assert page.get_by_text("n1000 does not answer").is_visible()
    assert page.locator(".countdown").first.inner_text().endswith("lease ends")
    assert page.get_by_text("250 of 1000 nodes emulated").first.is_visible()
    # The token is in no address that the browser keeps.
    assert "#" not in page.url


def test_a_long_table_keeps_few_rows_and_reaches_its_end_by_keys(
    start_dashboard: Start, open_window: Open, serve_crowd: Serve
) -> None:
    served = start_dashboard(serve_crowd(Crowd(step_s=None)))
    page = ready(open_window(served.link).page)
    page.get_by_role("link", name="Jobs").click()
    rows = page.locator(".rows")
    rows.focus()
    assert rows_shown(page)[0] == "801"
    page.keyboard.press("End")
    wait_until("the last row", lambda: "10000" in rows_shown(page))
    assert page.locator(".row").count() < 60
    assert page.get_by_role("table", name="Jobs").get_attribute("aria-rowcount") == "9201"
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Job 10000 lulesh-10000").wait_for()
    page.get_by_text("job 10000 has 0 cores").wait_for()


def test_the_search_and_the_order_choose_rows(
    start_dashboard: Start, open_window: Open, serve_crowd: Serve
) -> None:
    served = start_dashboard(serve_crowd(Crowd(nodes=100, jobs=500, step_s=None)))
    page = ready(open_window(served.link).page)
    page.get_by_role("link", name="Jobs").click()
    page.get_by_role("button", name="Job", exact=True).click()
    wait_until("the order by ID", lambda: rows_shown(page)[0] == "81")
    page.get_by_role("button", name="Job ↑").click()
    wait_until("the opposite order", lambda: "500" in rows_shown(page))
    page.get_by_label("Search jobs").fill("gromacs user3")
    wait_until("one application and user", lambda: rows_shown(page) and len(rows_shown(page)) < 12)
    page.get_by_label("Search jobs").fill("no such job")
    page.get_by_text("No job matches the search.").wait_for()


def test_arrow_keys_read_the_nodes(
    start_dashboard: Start, open_window: Open, serve_crowd: Serve
) -> None:
    served = start_dashboard(serve_crowd(Crowd(step_s=None)))
    page = ready(open_window(served.link).page)
    page.get_by_role("link", name="Nodes").click()
    page.get_by_role("application").focus()
    page.keyboard.press("ArrowRight")
    about = page.locator("#node-about")
    wait_until("the first node", lambda: "n0001" in about.inner_text())
    assert "may draw" in about.inner_text()
    page.keyboard.press("End")
    wait_until("the last node", lambda: "silent" in about.inner_text())
    assert "Its lease ends in" in about.inner_text()
    page.get_by_role("button", name="table").click()
    assert page.locator("table.plain tbody tr").count() == 1000


def test_a_name_of_a_job_is_text(
    start_dashboard: Start, open_window: Open, serve_crowd: Serve
) -> None:
    served = start_dashboard(serve_crowd(Crowd(nodes=20, jobs=30, step_s=None)))
    page = ready(open_window(served.link).page)
    page.get_by_role("button", name="running").click()
    page.get_by_role("cell", name=HOSTILE).wait_for()
    assert page.locator("img[src=x]").count() == 0


def test_a_link_works_once(start_dashboard: Start, open_window: Open, serve_crowd: Serve) -> None:
    served = start_dashboard(serve_crowd(Crowd(nodes=10, jobs=10)))
    first = open_window(served.link)
    ready(first.page)
    first.page.reload()
    ready(first.page)
    other = open_window(served.link)
    other.page.get_by_role("heading", name="No session").wait_for()
    # The browser reports the refusal, and nothing else.
    assert len(other.faults) == 1
    assert "403" in other.faults.pop()


def test_nothing_comes_from_another_place(
    start_dashboard: Start, open_window: Open, serve_crowd: Serve
) -> None:
    served = start_dashboard(serve_crowd(Crowd(nodes=10, jobs=10)))
    window = open_window("about:blank")
    asked: list[str] = []
    window.page.on("request", lambda request: asked.append(request.url))
    window.page.goto(served.link)
    ready(window.page)
    assert asked
    assert [url for url in asked if not url.startswith((served.origin, "data:"))] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_a_phone(
    start_dashboard: Start, open_window: Open, serve_crowd: Serve, scheme: str
) -> None:
    served = start_dashboard(serve_crowd(Crowd(nodes=100, jobs=500, step_s=None)))
    page = ready(open_window(served.link, viewport=PHONE, color_scheme=scheme).page)
    for name in PAGES:
        page.evaluate("name => { location.hash = name }", name)
        page.locator("main section").first.wait_for()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"], name


def test_a_theme_is_kept(start_dashboard: Start, open_window: Open, serve_crowd: Serve) -> None:
    served = start_dashboard(serve_crowd(Crowd(nodes=10, jobs=10)))
    page = ready(open_window(served.link, color_scheme="light").page)

    def back() -> str:
        found: str = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        return found

    light = back()
    for _ in range(2):
        page.get_by_role("button", name="Theme").click()
    assert back() != light
    dark = back()
    page.reload()
    ready(page)
    assert back() == dark


def test_the_page_only_shows_by_default(
    start_dashboard: Start, open_window: Open, serve_crowd: Serve
) -> None:
    served = start_dashboard(serve_crowd(Crowd(nodes=10, jobs=10)))
    page = ready(open_window(served.link).page)
    page.get_by_role("link", name="Budget").click()
    page.get_by_text("This dashboard only shows").wait_for()
    assert page.get_by_role("button", name="Set the budget").count() == 0


def test_a_budget_is_set_only_after_its_preview(
    start_dashboard: Start, open_window: Open, serve_crowd: Serve
) -> None:
    crowd = Crowd(nodes=10, jobs=10)
    served = start_dashboard(serve_crowd(crowd), "--control")
    page = ready(open_window(served.link).page)
    page.get_by_role("link", name="Budget").click()
    setting = page.get_by_role("button", name="Set the budget")
    assert setting.is_disabled()
    page.get_by_label("Budget in watts").fill("2600")
    assert setting.is_disabled()
    page.get_by_role("button", name="Preview").click()
    wait_until("the preview", setting.is_enabled)
    assert crowd.power.budget_uw == 2600 * W
    page.get_by_label("Budget in watts").fill("2700")
    assert setting.is_disabled()
    page.get_by_role("button", name="Preview").click()
    wait_until("the preview", setting.is_enabled)
    setting.click()
    wait_until("the budget", lambda: crowd.power.budget_uw == 2700 * W)
    page.get_by_label("Budget in watts").fill("5")
    page.get_by_role("button", name="Preview").click()
    page.get_by_text("below the least").wait_for()
    assert setting.is_disabled()


def test_an_announced_budget_is_cancelled(
    start_dashboard: Start, open_window: Open, serve_crowd: Serve
) -> None:
    crowd = Crowd(nodes=10, jobs=10)
    served = start_dashboard(serve_crowd(crowd), "--control")
    page = ready(open_window(served.link).page)
    page.get_by_role("link", name="Budget").click()
    cancelling = page.get_by_role("button", name="Cancel the budget of")
    wait_until("both announced budgets", lambda: cancelling.count() == 2)
    cancelling.first.click()
    page.get_by_text("Announced budget 1 is cancelled.").wait_for()
    assert [one.number for one in crowd.power.announced] == [2]
    wait_until("the other one", lambda: cancelling.count() == 1)


def test_the_timeline_follows_a_resize(
    start_dashboard: Start, open_window: Open, serve_crowd: Serve
) -> None:
    crowd = Crowd(nodes=20, jobs=30, step_s=0.2)
    served = start_dashboard(serve_crowd(crowd))
    page = ready(open_window(served.link).page)
    page.get_by_role("link", name="Timeline").click()
    page.get_by_role("img", name="16 jobs hold cores now").wait_for()
    page.get_by_text("Table of the same data").click()
    cores = page.locator("table.plain tr", has=page.get_by_role("rowheader", name="1", exact=True))
    assert "0-15" in cores.inner_text()
    with crowd.changed:
        crowd.jobs["1"].shares[0].cpus = "0-7"
    wait_until("the smaller size", lambda: "0-7" in cores.inner_text())
    with crowd.changed:
        crowd.jobs["1"].state = pb.JOB_STATE_COMPLETED
    page.get_by_role("img", name="15 jobs hold cores now").wait_for()
    assert cores.count() == 0


def test_a_lost_coordinator_is_shown(
    start_dashboard: Start, open_window: Open, serve_crowd: Serve
) -> None:
    served = start_dashboard(serve_crowd(Crowd(nodes=10, jobs=10)))
    window = open_window(served.link)
    page = ready(window.page)
    served.process.terminate()
    page.get_by_role("alert").get_by_text("No new data").wait_for()
    served.process.wait(20)
    window.context.close()
    # Its own attempts to connect again are refused.
    assert all("ERR_CONNECTION" in fault for fault in window.faults)
    window.faults.clear()

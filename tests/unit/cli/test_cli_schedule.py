"""`budget schedule`: files of budgets, prices and calendars; the preview; what is sent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.cli.command import Command
from unit.cli.fake_coordinator import FakeCoordinator, W

from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.site.schedules.calendar_rules import read_calendar
from wattfold.coordinator.cli.site.schedules.preview import BudgetLevel, budget_graph
from wattfold.coordinator.cli.site.schedules.series import Above, parse_above, read_series
from wattfold.coordinator.cli.site.schedules.steps import ScheduledStep, course

WINTER_S = 1_800_002_400.0
"""2027-01-15 09:40 in Berlin, a Friday."""
ABOVE = [Above(80, 70 * W), Above(120, 60 * W), Above(-5, 90 * W)]


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def local(step: ScheduledStep) -> tuple[str, int]:
    """The local time of a step, and its watts."""
    return time.strftime("%a %m-%d %H:%M%z", time.localtime(step.at_s)), step.budget_uw // W


def put(folder: Path, text: str, name: str = "f.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("time,budget_w\n2027-01-15T10:00,60000\n", [("Fri 01-15 10:00+0100", 60000)]),
        ("\ufeffTime , budget_kW\n\n2027-01-15T09:00Z, 1.5\n", [("Fri 01-15 10:00+0100", 1500)]),
        (
            "site,budget_w,time\na,50,2027-07-01 12:00\nb,40,2027-07-01T12:00Z\n",
            [("Thu 07-01 12:00+0200", 50), ("Thu 07-01 14:00+0200", 40)],
        ),
    ],
)
def test_budgets_by_time(tmp_path: Path, text: str, found: list[tuple[str, int]]) -> None:
    assert [local(step) for step in read_series(put(tmp_path, text), (), 0)] == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "line 1: expected the column time and one of"),
        ("time,watts\n", "found time,watts"),
        ("time,budget_w,budget_kw\n", "line 1"),
        ("time,time,budget_w\n", "line 1"),
        ("time,budget_w\n2027-01-15T10:00\n", "line 2: 1 values under 2 columns"),
        ("time,budget_w\n2027-01-15T10:00,-5\n", "line 2: not a power"),
        ("time,budget_w\n2027-01-15T10:00,5kW\n", "line 2: not a power in W"),
        ("time,budget_w\n2027-01-15T10:00,0\n", "line 2: .* outside 0 W"),
        ("time,budget_w\nnoon,5\n", "line 2: not a time: 'noon'"),
        ("time,budget_w\n2027-03-28T02:30,5\n", "line 2: .* does not exist here"),
        ("time,budget_w\n2027-10-31T02:30,5\n", "line 2: .* exists twice here"),
        (
            "time,budget_w\n2027-01-15T10:00,5\n\n2027-01-15T09:00Z,6\n",
            "line 4: the time of line 2 again",
        ),
        ("time,eur_per_mwh\n2027-01-15T10:00,5\n", "give budgets for it with --above"),
    ],
)
def test_lines_that_are_refused(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(BadRequestError, match=why):
        read_series(put(tmp_path, text), (), 0)


def test_prices_are_mapped_to_budgets(tmp_path: Path) -> None:
    hours = enumerate(("80", "80.01", "120.5", "0", "1e3"), 10)
    lines = [f"2027-01-15T{hour}:00,{value}" for hour, value in hours]
    path = put(tmp_path, "\n".join(["time,eur_per_mwh", *lines]))
    assert [step.budget_uw // W for step in read_series(path, ABOVE, 0)] == [90, 70, 60, 90, 60]
    path = put(tmp_path, "time,g_per_kwh\n2027-01-15T10:00,-5\n")
    with pytest.raises(BadRequestError, match="line 2: -5 is above no --above"):
        read_series(path, ABOVE, 0)
    assert [step.budget_uw for step in read_series(path, ABOVE, 99 * W)] == [99 * W]
    for value in ("nan", "x", "inf"):
        path = put(tmp_path, f"time,g_per_kwh\n2027-01-15T10:00,{value}\n")
        with pytest.raises(BadRequestError, match="line 2: not a number"):
            read_series(path, ABOVE, 0)
    path = put(tmp_path, "time,budget_w\n2027-01-15T10:00,5\n")
    with pytest.raises(BadRequestError, match="omit --above"):
        read_series(path, ABOVE, 0)
    assert parse_above("-10.5=60kW") == Above(-10.5, 60_000 * W)
    for text in ("60kW", "x=60kW", "inf=60", "5=0"):
        with pytest.raises(ValueError, match=r"not a value and a budget|outside 0 W"):
            parse_above(text)


CALENDAR = """
default_budget_kw = 90
[[rule]]
days = ["mon-fri"]
from = "08:00"
to = "20:00"
budget_w = 60000
[[rule]]
days = ["fri"]
from = 22:00:00
to = "06:00"
budget_kw = 100
[[rule]]
dates = ["2027-01-18", 2027-01-19]
budget_kw = 80
"""


def test_a_calendar_by_days_nights_and_dates(tmp_path: Path) -> None:
    calendar = read_calendar(put(tmp_path, CALENDAR, "c.toml"))
    seen = course(calendar.steps(WINTER_S, 5), WINTER_S)
    assert seen.now_uw == 60_000 * W
    assert [local(step) for step in seen.coming] == [
        ("Fri 01-15 20:00+0100", 90_000),
        ("Fri 01-15 22:00+0100", 100_000),
        ("Sat 01-16 06:00+0100", 90_000),
        ("Mon 01-18 00:00+0100", 80_000),
        ("Wed 01-20 00:00+0100", 90_000),
        ("Wed 01-20 08:00+0100", 60_000),
    ]


@pytest.mark.parametrize(
    ("day", "times", "note"),
    [
        (1_806_100_000.0, ["01:30+0100", "03:00+0200"], "does not exist; 2027-03-28 03:00:00+02"),
        (1_824_800_000.0, ["01:30+0200", "02:30+0200"], "exists twice; the first is used"),
    ],
)
def test_hours_that_the_clocks_skip_or_repeat(
    tmp_path: Path, day: float, times: list[str], note: str
) -> None:
    """On the nights of 28 March and 31 October 2027."""
    text = 'default_budget_w = 9\n[[rule]]\ndays="sun"\nfrom="01:30"\nto="02:30"\nbudget_w=6\n'
    found = course(read_calendar(put(tmp_path, text, "c.toml")).steps(day, 3), day).coming
    assert [local(step)[0].split()[2] for step in found] == times
    assert note in found[1].note
    assert not found[0].note


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "give default_budget_w or default_budget_kw"),
        ("default_budget_w = 0", "outside 0 W"),
        ("default_budget_w = true", "is a number"),
        ("default_budget_w = inf", "not a power"),
        ("default_budget_w = 1\nrules = 2", "unknown: rules; known are"),
        ("default_budget_w = 1\nrule = 2", r"write \[\[rule\]\]"),
        ("default_budget_w = ", "cannot read"),
        ("days = ['mon'], budget_w = 1", "rule 1: .*|cannot read"),
        ('[[rule]]\nbudget_w = 1\ndays = ["mo"]', "rule 1: 'mo' is no day"),
        ('[[rule]]\nbudget_w = 1\ndays = ["mon-"]', "rule 1: 'mon-' is no day"),
        ("[[rule]]\nbudget_w = 1\ndays = []", "rule 1: days is a list"),
        ('[[rule]]\nbudget_w = 1\ndates = ["31.1."]', "rule 1: '31.1.' is no date"),
        ('[[rule]]\nbudget_w = 1\ndates = []\ndays = "mon"', "rule 1: give days or dates"),
        ('[[rule]]\nbudget_w = 1\nfrom = "8"', "rule 1: from is a time of day"),
        ('[[rule]]\nbudget_w = 1\nfrom = "24:00"', "rule 1: from and to must differ"),
        ('[[rule]]\nbudget_w = 1\nto = "00:00"', "rule 1: from and to must differ"),
        ("[[rule]]\nbudget_w = 1\nbudget_kw = 1", "rule 1: give budget_w or budget_kw"),
        ("[[rule]]\nbudget_w = 1\n[[rule]]\nbudget = 1", "rule 2: unknown: budget"),
    ],
)
def test_calendars_that_are_refused(tmp_path: Path, text: str, why: str) -> None:
    text = f"default_budget_w = 1\n{text}" if text.startswith("[[") else text
    with pytest.raises(BadRequestError, match=why):
        read_calendar(put(tmp_path, text, "c.toml"))


def test_equal_neighbours_are_one_and_the_past_is_left_out() -> None:
    steps = [
        ScheduledStep(at_s, budget) for at_s, budget in ((4, 5), (1, 9), (2, 9), (3, 5), (5, 7))
    ]
    assert course(steps, 2.5) == course([*steps, ScheduledStep(5.5, 7)], 2.5)
    seen = course(steps, 2.5)
    assert (seen.now_uw, seen.passed) == (9, 1)
    assert seen.coming == (ScheduledStep(3, 5), ScheduledStep(5, 7))
    assert course(steps, 0).now_uw == 0


def budgets(folder: Path, *watts: int) -> Path:
    """A file with budgets an hour ago, in one hour, in two hours, and so on."""
    first = time.time() - 3600
    times = (first + 7200 * number for number in range(len(watts)))
    lines = [
        f"{time.strftime('%Y-%m-%dT%H:%M:%S%z', time.localtime(at_s))},{watt}"
        for at_s, watt in zip(times, watts, strict=True)
    ]
    return put(folder, "\n".join(["time,budget_w", *lines]), "contract.csv")


def test_announced_previewed_and_cancelled(
    wattfold: Command, fake: FakeCoordinator, tmp_path: Path
) -> None:
    file = str(budgets(tmp_path, 170, 150, 150, 190))
    shown = wattfold("budget", "schedule", file, "--preview")
    assert shown.exit_code == 0
    assert "2 to announce, 0 to keep, 0 to cancel, 0 refused" in shown.stdout
    assert "The schedule has 170.0 W for now, and the budget is 200.0 W" in shown.stdout
    assert "`wattfold budget set 170W`" in shown.stdout
    assert not fake.power.announced
    done = wattfold("budget", "schedule", file)
    assert done.stdout.startswith("Schedule contract: announced 2, kept 0, cancelled 0.\n")
    assert [one.schedule for one in fake.power.announced] == ["contract"] * 2
    assert "contract" in wattfold("budget", "list").stdout
    again = wattfold.json("budget", "schedule", file, "--name", "other", "--preview")
    assert [one["budget_uw"] for one in again["announced"]] == [150 * W, 190 * W]
    assert (again["preview"], again["scheduled_now_uw"]) == (True, 170 * W)
    gone = wattfold("budget", "cancel", "--schedule", "contract")
    assert gone.stdout == "Cancelled 2 announced budgets of schedule contract.\n"
    assert not fake.power.announced


def test_what_is_refused_is_shown_with_its_reason(
    wattfold: Command, fake: FakeCoordinator, tmp_path: Path
) -> None:
    file = str(budgets(tmp_path, 200, *(150 + number for number in range(60)), 1))
    shown = wattfold("budget", "schedule", file, "--preview")
    assert shown.exit_code == 1
    assert "REFUSE" in shown.stdout
    assert "below the least" in shown.stdout
    assert "11 more are not shown" in shown.stdout
    assert "The schedule would be refused: one refused budget refuses all." in shown.stdout
    assert "for now" not in shown.stdout
    refused = wattfold("budget", "schedule", file)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert not fake.power.announced


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["{csv}", "--days", "3"], 2, "--days is for calendars"),
        (["{toml}", "--otherwise", "5"], 2, "--above and --otherwise are for prices"),
        (["{csv}", "--name", "a b"], 2, "is no name of a schedule"),
        (["{past}"], 1, "no change of the budget after now"),
        (["{csv}", "--above", "5"], 2, "not a value and a budget"),
        (["{csv}x"], 2, "does not exist"),
    ],
)
def test_command_lines_that_are_refused(
    wattfold: Command, tmp_path: Path, arguments: list[str], code: int, why: str
) -> None:
    files = {
        "csv": budgets(tmp_path, 200, 150),
        "toml": put(tmp_path, CALENDAR, "c.toml"),
        "past": put(tmp_path, "time,budget_w\n2020-01-01T00:00,5\n", "past.csv"),
    }
    done = wattfold("budget", "schedule", *(text.format(**files) for text in arguments))
    assert done.exit_code == code
    assert why in done.stderr


def test_a_cancellation_needs_a_number_or_a_schedule(wattfold: Command) -> None:
    done = wattfold("budget", "cancel")
    assert done.exit_code == 2
    assert "give numbers of announced budgets, or --schedule NAME" in done.stderr


def test_power_shows_the_next_announced_budgets_only(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    for number in range(1, 12):
        at_s = 2e9 + number
        fake.power.announced.add(number=number, at_s=at_s, budget_uw=150 * W, from_s=at_s)
    fake.power.announced_later = 5
    for command in (("power",), ("budget", "show")):
        text = wattfold(*command).stdout
        assert "announced 8" in text
        assert "announced 9" not in text
        assert "8 more; see `wattfold budget list`" in text


def test_the_graph_shows_the_lowest_budget_of_each_span_and_the_minimum() -> None:
    found = [
        BudgetLevel(0, 80 * W),
        BudgetLevel(50, 40 * W),
        BudgetLevel(51, 80 * W),
        BudgetLevel(100, 10 * W),
    ]
    lines = [line.plain for line in budget_graph(found, 20 * W, 89)]
    assert len(lines) == 9
    assert lines[0].startswith("    80 W ███")
    assert lines[7].startswith("     0 W ░░░")
    assert lines[0][9:].count(" ") == 5, "the short fall, and the last budget"
    assert lines[7][9:].count("█") == 4, "the last budget is below the minimum"
    assert max(map(len, lines)) == 89

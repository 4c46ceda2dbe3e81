"""Parsing of values on the command line."""

from __future__ import annotations

import pytest

from wattfold.coordinator.cli.shared import parsing


@pytest.mark.parametrize(
    ("text", "least", "greatest"), [("4", 4, 4), ("2-8", 2, 8), ("3-3", 3, 3), (" 1 ", 1, 1)]
)
def test_sizes(text: str, least: int, greatest: int) -> None:
    size = parsing.parse_size_range(text)
    assert (size.least, size.greatest) == (least, greatest)
    assert size.is_range == (least < greatest)


@pytest.mark.parametrize("text", ["", "0", "4-2", "-1", "2-", "-", "a", "1.5", "2-4-8", "9999999"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        parsing.parse_size_range(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("5m", 300),
        ("1h30m", 5400),
        ("2d", 172_800),
        ("1.5s", 1.5),
        ("500ms", 0.5),
        ("01:30:00", 5400),
        ("100:00:01", 360_001),
        ("1-02:00:00", 93_600),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parsing.parse_duration_ns(text) == round(seconds * 1e9)


@pytest.mark.parametrize("text", ["", "90", "0s", "5x", "s", "1:2", "00:00:00", "1:60:00", "400d"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parsing.parse_duration_ns(text)


@pytest.mark.parametrize(
    ("text", "power_uw"),
    [
        ("250", 250_000_000),
        ("250W", 250_000_000),
        ("1.5kW", 1_500_000_000),
        ("0.3", 300_000),
        ("750mW", 750_000),
        ("2 MW", 2_000_000_000_000),
    ],
)
def test_powers(text: str, power_uw: int) -> None:
    assert parsing.parse_power_uw(text) == power_uw


@pytest.mark.parametrize("text", ["", "0", "-5", "nan", "inf", "5J", "1e3", "2000MW"])
def test_no_powers(text: str) -> None:
    with pytest.raises(ValueError, match="power"):
        parsing.parse_power_uw(text)


def test_lists_are_ascending_without_repeats() -> None:
    assert parsing.parse_size_list("4,1,4,2") == (1, 2, 4)
    assert parsing.parse_power_list_uw("60,30.5") == (30_500_000, 60_000_000)
    with pytest.raises(ValueError, match="list of sizes"):
        parsing.parse_size_list("1-4")
    with pytest.raises(ValueError, match="list of powers"):
        parsing.parse_power_list_uw(",")


def test_settings() -> None:
    assert parsing.parse_setting("A=b=c") == ("A", "b=c")
    assert parsing.parse_setting("A=") == ("A", "")
    assert parsing.parse_setting("A") == ("A", None)
    with pytest.raises(ValueError, match="environment variable"):
        parsing.parse_setting("1A=x")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4G", 4 << 30),
        ("512M", 512 << 20),
        ("1.5GiB", 3 << 29),
        ("100 MB", 100_000_000),
        ("1k", 1024),
    ],
)
def test_memory(text: str, size: int) -> None:
    assert parsing.parse_memory_bytes(text) == size


@pytest.mark.parametrize("text", ["", "4", "-1G", "4X", "G", "0G", "99999999999T"])
def test_no_memory(text: str) -> None:
    with pytest.raises(ValueError, match="memory"):
        parsing.parse_memory_bytes(text)


def test_times() -> None:
    assert parsing.parse_time_s("+1h30m", 1000.0) == 1000.0 + 5400
    assert parsing.parse_time_s("2027-01-31T18:00:00+00:00", 0.0) == 1_801_418_400.0
    assert parsing.parse_time_s("2h", 1000.0) == 1000.0 + 7200
    for text in ("", "tomorrow", "+", "1", "2027-13-01"):
        with pytest.raises(ValueError, match="not a"):
            parsing.parse_time_s(text, 0.0)


def test_names() -> None:
    assert parsing.parse_names("b, a,b") == ("b", "a")
    for text in ("", ",", "a/b"):
        with pytest.raises(ValueError, match="not a list of names"):
            parsing.parse_names(text)

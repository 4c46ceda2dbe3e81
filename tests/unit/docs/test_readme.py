"""The simulations of README.md run, and their tables are compared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from unit.cli.command import Command
from unit.docs.test_commands import commands
from unit.workloads.swf_files import job, log

PAGE = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```sh\n(.*?)^```\n(?:\n((?: {4}[^\n]*\n|\n)+))?", re.S | re.M)
BLOCKS = [
    (words, table)
    for block, table in _BLOCK.findall(PAGE)
    for words in commands(f"```sh\n{block}```\n")
    if words[1:2] in (["compare"], ["simulate"])
]
"""Each simulation, with the table after its block or an empty text."""
TOLERANCE = 0.02
"""Relative tolerance, because other versions of numerical libraries change the last digits."""
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


TOLD = [float(number) for number in re.findall(r"\b(\d\.\d\d)x", PAGE.partition("At 2.85 kW")[2])]
"""PARM's ratios in the text below the table: makespan, completion, slowdown and energy."""


def ratios_at(budget: str, shown: list[str]) -> list[float]:
    """The last column of each table of a sweep, under one budget."""
    rows = [line.split()[-1] for line in shown if line.startswith(budget)]
    return [float(ratio.removesuffix("x")) for ratio in rows]


def words_and_numbers(line: str) -> tuple[str, list[float]]:
    numbers = [float(number.replace(",", "")) for number in _NUMBER.findall(line)]
    return " ".join(_NUMBER.sub("N", line).split()), numbers


def is_shown(line: str, shown: list[str]) -> bool:
    """Whether a line of the table is in the output."""
    text, numbers = words_and_numbers(line)
    found = [values for other, values in map(words_and_numbers, shown) if other == text]
    return any(values == pytest.approx(numbers, rel=TOLERANCE) for values in found)


@pytest.mark.parametrize(("words", "table"), BLOCKS, ids=[" ".join(b[0]) for b in BLOCKS])
def test_a_simulation_of_the_readme_gives_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], table: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if "--log" in words:
        rows = [job(number, number * 300, f4=200, f5=30) for number in range(1, 9)]
        log(tmp_path, *rows, name=words[words.index("--log") + 1])
    result = Command("unix:/nonexistent/wattfold.sock")(*words[1:])
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    shown = result.stdout.splitlines()
    lines = [line for line in table.splitlines() if line.strip() not in ("", "...")]
    assert [line for line in lines if not is_shown(line, shown)] == []
    if "--model" in words:
        assert lines, "the README shows what this command prints"
        assert ratios_at("2.850 kW", shown) == pytest.approx(TOLD, abs=TOLERANCE)


def test_the_readme_has_a_simulation() -> None:
    assert BLOCKS

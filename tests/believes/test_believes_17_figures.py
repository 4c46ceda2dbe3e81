"""Figures print no small number as zero and no share above 100 %; the pages show them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from unit.results.records import record, small

from wattfold.simulator.figures.comparison import draw_sweep
from wattfold.simulator.figures.heat_maps import draw_category_ratios
from wattfold.simulator.figures.overview import draw_overview
from wattfold.simulator.results.categories import categories
from wattfold.simulator.results.intervals import mean_interval
from wattfold.simulator.results.metrics import metrics_of
from wattfold.simulator.results.scales import short_number

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.glob("reproducing-*.md"))
BYTES_MAX = 150_000
YEAR_S = 365 * 86_400


def test_a_small_number_is_not_printed_as_zero() -> None:
    assert short_number(0.0049) == "<0.01"
    assert (short_number(0.005), short_number(0.0)) == ("0.01", "0")


def test_cells_of_categories_do_not_print_zero_for_a_small_ratio() -> None:
    theirs = categories(small())
    ours = replace(theirs, slowdown=theirs.slowdown * 1e-3)
    texts = {text.get_text() for text in draw_category_ratios(ours, theirs, "").axes[0].texts}
    assert texts == {"<0.01"}


def test_a_short_mean_beside_a_long_makespan_is_in_a_unit_of_its_own() -> None:
    jobs = [(0, 0, 60, 1), (YEAR_S, YEAR_S, YEAR_S + 60, 1)]
    title = draw_overview([record(jobs)]).axes[0].get_title(loc="right")
    assert title == "mean completion 60 s, makespan 365.0 d"


def test_an_interval_of_a_share_ends_at_100_percent() -> None:
    high = mean_interval([0.99, 0.7, 1.0])
    assert high.high > 1
    assert high.within(0, 1).high == 1
    runs = [replace(metrics_of(small()), utilisation=share) for share in (0.99, 0.7, 1.0)]
    axes = draw_sweep({"easy": {1.0: runs, 2.0: runs}}, "load", "utilisation").axes[0]
    band = axes.collections[0].get_paths()[0].get_extents()
    assert np.isclose(band.y1, 100)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_shows_its_figures_and_the_commands_that_make_them(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    figures = re.findall(r"!\[[^\]]+\]\((images/[^)]+)\)\n\n([^\n]+(?:\n[^\n]+)*)", text)
    assert figures, f"{page.name} shows no figure"
    paper = page.stem.removeprefix("reproducing-")
    for name, below in figures:
        assert (DOCS / name).stat().st_size <= BYTES_MAX, name
        assert f"`wattfold reproduce {paper}" in below, f"no command below {name}"


def test_there_is_a_page_for_each_paper() -> None:
    assert len(PAGES) == 5

"""Long queues are listed at once: tables that must be cut or wrapped are laid out without rich."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from unit.cli.conftest import address, fake, short_folder
from unit.cli.fake_coordinator import NOW_S, FakeCoordinator
from unit.cli.test_cli_start import MODULES_OF

from wattfold.coordinator.cli.shared.texts.tables import (
    flexible,
    left,
    plain_table,
    right,
    wrapped,
)
from wattfold.coordinator.cli.shared.texts.text_layout import cell_width, fitted, narrowed
from wattfold.v1 import coordinator_pb2 as pb

__all__ = ["address", "fake", "short_folder"]

TEXTS = st.text(st.characters(categories=("L", "M", "N", "P", "S", "Zs")), max_size=40).filter(
    str.isprintable
)


@given(TEXTS)
def test_texts_are_as_wide_as_rich_says(text: str) -> None:
    narrow = "".join(c for c in text if cell_len(c) == cell_width(c))
    assert cell_width(narrow) == sum(map(cell_len, narrow))
    assert [cell_width(c) for c in "aü米e\u0301\u1161"] == [1, 1, 2, 1, 0, 0]


@given(TEXTS, st.integers(2, 30), st.booleans())
def test_every_line_fits_and_wrapped_text_is_complete(text: str, width: int, wraps: bool) -> None:
    lines = fitted(text, width, wraps=wraps)
    assert all(cell_width(line) <= width for line in lines)
    if cell_width(text) <= width:
        assert lines == [text]
    elif wraps:
        assert "".join("".join(lines).split()) == "".join(text.split())
    else:
        assert text.startswith(lines[0][:-1])
        assert lines[0].endswith("…")


def test_the_widest_flexible_columns_are_narrowed_first() -> None:
    assert narrowed([5, 30, 4, 50], [False, True, False, True], 89) == [5, 30, 4, 50]
    assert narrowed([5, 30, 4, 50], [False, True, False, True], 79) == [5, 30, 4, 40]
    assert narrowed([5, 30, 4, 50], [False, True, False, True], 49) == [5, 20, 4, 20]
    assert narrowed([5, 30, 4, 50], [False, True, False, True], 8) == [3, 1, 3, 1]
    assert narrowed([5, 5], [False, False], 1) == [1, 1]


def test_a_narrow_table() -> None:
    table = plain_table(left("ID"), flexible("NAME"), right("SIZE"), wrapped("WHERE (REASON)"))
    table.add_row("1", "米米米米米米米米 study", "4/8", "(waits for 3 GiB of memory on a node)")
    table.add_row("12", "short", "1", "n0:0-3")
    assert table.lines(34, "none") == [
        "ID NAME          SIZE WHERE (REAS…",
        "1  米米米米米米…  4/8 (waits for 3",
        "                      GiB of",
        "                      memory on a",
        "                      node)",
        "12 short            1 n0:0-3",
    ]


@pytest.mark.cold_start
def test_a_queue_that_does_not_fit_is_listed_without_rich(
    address: str, fake: FakeCoordinator
) -> None:
    for number in range(20):
        spec = pb.JobSpec(name=f"Müller: part {number} of a long parameter study")
        state, job_id = pb.JOB_STATE_PENDING, str(number)
        fake.add(pb.Job(job_id=job_id, spec=spec, state=state, submitted_at_s=NOW_S))
    done = subprocess.run(
        [sys.executable, "-c", MODULES_OF, "--coordinator", address, "queue"],
        env={**os.environ, "COLUMNS": "60"},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "20 waiting"
    assert len(lines) == 22
    assert all(len(line) <= 60 and "Müller: …" in line for line in lines[2:])
    assert "rich" not in done.stderr.split()

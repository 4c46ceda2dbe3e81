"""The trials of Charm++ programs on a real small site have results of the right form."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from wattfold.coordinator.demo import charm_nodes
from wattfold.coordinator.demo.charm_site import program_file
from wattfold.coordinator.demo.charm_trials import QUICK, Trials
from wattfold.coordinator.demo.runner import Interruption

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("charm4py") is None,
        reason="needs charm4py: pip install 'wattfold[charm]'",
    ),
]


def test_a_shrink_and_an_expand_are_timed_and_their_bytes_counted(tmp_path: Path) -> None:
    trials = Trials(replace(QUICK, repeats=1), tmp_path, Interruption(), lambda _: None)
    shrink, expand = trials.resizes(2, 200_000)
    assert (shrink.pes_from, shrink.pes_to, expand.pes_from, expand.pes_to) == (2, 1, 1, 2)
    for one in (shrink, expand):
        assert 0 < one.stalled_s <= one.took_s
        # Two blocks of 100 kB, and their additional data.
        assert 200_000 < one.moved_bytes < 210_000


# A build that can restart programs accepts this option; charm4py's build leaves it to them.
WITHOUT_FOLDER = """import runpy, sys
at = sys.argv.index("+shrinkexpand_basedir")
del sys.argv[at : at + 2]
runpy.run_path({program!r}, run_name="__main__")
"""


def test_processes_of_a_program_that_restarts_itself_are_started_on_this_node(
    tmp_path: Path,
) -> None:
    # With charm4py's charmrun, which cannot restart it: by the shell, from the list of nodes.
    start = (sys.executable, "-m", "wattfold.shims.charm_start", "--rebuild", "--")
    program = tmp_path / "program.py"
    program.write_text(WITHOUT_FOLDER.format(program=str(program_file())))
    command = (sys.executable, "-m", "charmrun.start", str(program), "--steps=5", "--blocks=4")
    done = subprocess.run(
        [*start, *command],
        env=os.environ | {"WATTFOLD_LAUNCH_CPUS": "2"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^blocks \S+ \[2, 2\]$", done.stdout, re.MULTILINE)
    total = 4 * (5 * sum(range(2000)) + sum(range(5)))
    assert f"end 5 {total}\n" in done.stdout


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_the_demonstration_gives_a_node_back_and_takes_it_again(tmp_path: Path) -> None:
    said: list[str] = []
    charm_nodes.show(tmp_path, Interruption(), said.append)
    assert [line for line in said if "objects" in line] == [
        "a Charm++ job runs on n0 and n1 (map 11, objects 4, 4)",
        "a job for one node arrives; the first job releases a node: n0 (map 10, objects 8, 0)",
        "it has ended; the first job gets the node again: n0 and n1 (map 11, objects 4, 4)",
    ]
    assert "the other job runs on n1" in said
    assert "undisturbed run" in said[-1]

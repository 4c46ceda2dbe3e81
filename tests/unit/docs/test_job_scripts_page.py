"""docs/job-scripts.md against the code: directives, patterns, options of Slurm, variables."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from unit.agent.test_agent_launch_rules import ORDER, SHIM

from wattfold.coordinator.adapters.requests.output_patterns import PATTERNS
from wattfold.coordinator.cli.jobs.scripts import sbatch
from wattfold.coordinator.cli.jobs.scripts.job_script import STDIN_BYTES_MAX, parse_directives
from wattfold.nodeagent.core.gpus import VISIBLE
from wattfold.nodeagent.core.launch import ResizeMode, job_environment
from wattfold.nodeagent.core.steps import StepNode, StepSetting

PAGE = (Path(__file__).parents[3] / "docs" / "job-scripts.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def first_cells(text: str) -> str:
    return "\n".join(line.split("|")[1] for line in text.splitlines() if line.startswith("|"))


def test_the_example_has_directives() -> None:
    block = re.search(r"^```sh\n(.*?)^```", PAGE, re.S | re.M)
    assert block
    found = parse_directives(block[1], "job.sh")
    words = [word for directive in found.own for word in directive.words]
    assert words == [
        *("--cores", "4", "--time", "10m", "--name", "my run", "--output", "run-%j.out"),
    ]


def test_the_patterns_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| `%(.)` \| (.+) \|$", section("Output files"), re.M)
    assert {letter: text.replace("`", "") for letter, text in rows} == PATTERNS


def test_the_options_of_slurm_are_those_of_the_code() -> None:
    text = section("Options of Slurm")
    listed = set(re.findall(r"`--([a-z-]+)", first_cells(text)))
    assert listed == sbatch.VALUED | sbatch.FLAGS
    short = dict(re.findall(r"`--([a-z-]+)`, `-(\w)`", first_cells(text)))
    known = {name: letter for letter, name in sbatch.SHORT.items() if name not in sbatch.REFUSED}
    assert short == known
    refused = text.partition("Wattfold refuses ")[2].partition(" and values")[0]
    assert set(re.findall(r"`--([a-z-]+)`", refused)) == set(sbatch.REFUSED)


def test_the_limit_of_a_script_is_that_of_the_code() -> None:
    assert f"at most\n{STDIN_BYTES_MAX >> 10} KiB" in PAGE


def test_every_variable_of_the_agent_is_listed() -> None:
    node = StepNode(node_id="n0", address="tcp:n0:1", cpus=4)
    steps = StepSetting(folder="/s", remote_shell="/rsh", node_id="n0", hostname="n0")
    found: set[str] = set()
    for mode in ResizeMode:
        order = dataclasses.replace(
            ORDER,
            mode=mode,
            step_nodes=(node,),
            snapshot_dir="s",
            epochs=3,
            pes=4,
            tasks_per_node=2,
        )
        found |= job_environment(order, SHIM, steps, {VISIBLE: "0"}).keys()
    text = section("Environment of a job")
    named = set(re.findall(r"`([A-Z_0-9]+)`", text))
    families = tuple(re.findall(r"`([A-Z_]+_)\*`", text))
    missing = sorted(name for name in found if name not in named and not name.startswith(families))
    assert missing == []
    own = {name for name in named if name.startswith("WATTFOLD_")}
    assert own <= found

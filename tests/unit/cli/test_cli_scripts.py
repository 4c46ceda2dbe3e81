"""`submit` of job scripts: directives, their order of precedence, standard input, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.cli.command import Command
from unit.cli.fake_coordinator import FakeCoordinator

from wattfold.v1 import coordinator_pb2 as pb

NS = 10**9


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def script(*lines: str, mode: int = 0o755, first: str = "#!/bin/sh") -> None:
    Path("job.sh").write_text("\n".join([first, *lines, "hostname", ""]))
    Path("job.sh").chmod(mode)


def submitted(wattfold: Command, fake: FakeCoordinator, *words: str, warns: str = "") -> pb.JobSpec:
    result = wattfold("submit", *words)
    assert result.exit_code == 0, result.output
    assert (warns in result.stderr) if warns else (result.stderr == ""), result.stderr
    return fake.submissions[-1].spec


def refused(wattfold: Command, fake: FakeCoordinator, *words: str) -> str:
    result = wattfold("submit", *words)
    assert (result.exit_code, fake.submissions) == (2, []), result.output
    return result.stderr


def test_directives_are_options(wattfold: Command, fake: FakeCoordinator) -> None:
    script(
        "#WATTFOLD --cores 2-4 --time 10m   # a comment",
        "# another comment",
        "",
        "#WATTFOLD --name 'a b' --env X=1 --env 'Y=#2' --output o-%j --requeue",
        "#WATTFOLD --app a --hold",
    )
    spec = submitted(wattfold, fake, "job.sh", "an", "--argument")
    assert list(spec.argv) == ["./job.sh", "an", "--argument"]
    assert (spec.size_min, spec.size_max, spec.limit_ns) == (2, 4, 600 * NS)
    assert (spec.name, spec.app, spec.stdout_path, spec.requeue_max) == ("a b", "a", "o-%j", 3)
    assert (spec.env["X"], spec.env["Y"]) == ("1", "#2")
    assert not any(name.startswith("SLURM_") for name in spec.env)
    assert fake.submissions[-1].held


def test_the_command_line_wins_over_wattfold_and_that_over_sbatch(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    script(
        "#SBATCH -N 2 --time=1:00:00 -p night -J slurm",
        "#WATTFOLD --cores 4 --time 5m --env X=1 --env Y=1 --export none",
    )
    line = ("--units", "3", "--env", "Y=2", "--name", "line", "--export", "all")
    spec = submitted(wattfold, fake, *line, "./job.sh", warns="ppr:1:node")
    assert (spec.unit, spec.size_min, spec.unit_cores) == (pb.SIZE_UNIT_UNITS, 3, 1)
    assert (spec.limit_ns, spec.queue, spec.name) == (300 * NS, "night", "line")
    assert (spec.env["X"], spec.env["Y"]) == ("1", "2")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("#WATTFOLD --core-count 3", "job.sh:2: No such option '--core-count'"),
        ("#WATTFOLD --cores many", "job.sh:2: Invalid value for '--cores': not a size: 'many'"),
        ("#WATTFOLD --limit 3m", "job.sh:2: no option --limit"),
        ("#WATTFOLD 4", "job.sh:2: '4' is not an option"),
        ("#WATTFOLD --json", "job.sh:2: --json is only for the command line"),
        ("#WATTFOLD --help", "job.sh:2: --help is only for the command line"),
        ("#WATTFOLD --name 'a", "job.sh:2: no closing quotation"),
        ("true\n#WATTFOLD --cores 3", "job.sh:3: #WATTFOLD after the first command"),
        ("#SBATCH --array=9-1", "'9-1': the last index is below the first"),
        ("#SBATCH -d singleton", "job.sh:2: #SBATCH --dependency: 'singleton': only afterok"),
        ("#SBATCH --begin teatime", "job.sh:2: #SBATCH --begin: 'teatime': expected for"),
        ("#WATTFOLD --after ko:1", "job.sh:2: Invalid value for '--after': not a dependency"),
        ("#SBATCH --time", "job.sh:2: #SBATCH --time needs a value"),
        ("#SBATCH 4", "job.sh:2: #SBATCH 4: not an option"),
    ],
)
def test_wrong_directives_are_refused_with_their_line(
    wattfold: Command, fake: FakeCoordinator, line: str, message: str
) -> None:
    script(line)
    assert message in refused(wattfold, fake, "job.sh")


def test_everything_unread_is_named_in_one_warning(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    script(
        "#SBATCH --mail-type=STAGE_OUT --mail-user a@b -M other -n 1",
        "#SBATCH --qos high --gres=gpu:a100:2",
        "#PBS -l 'nodes=2",
        "hostname",
        "#SBATCH --time=5",
    )
    result = wattfold("submit", "job.sh")
    assert result.stderr.splitlines() == [
        "wattfold: job.sh: not supported: --M=other (line 2); --qos=high (line 3); "
        "--mail-type=STAGE_OUT (line 2); --mail-user=a@b (line 2); not supported: the GPU type "
        "a100 (line 3); use --features; directives of other schedulers are not read: #PBS (line "
        "4); #SBATCH after the first command has no effect (line 6)"
    ]
    assert fake.submissions[-1].spec.gpus == 2


def test_a_script_that_is_not_executable_runs_with_its_interpreter(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    script("#WATTFOLD --cores 2", mode=0o644, first="#!/usr/bin/env  sh -e")
    spec = submitted(wattfold, fake, "job.sh", "x")
    assert list(spec.argv) == ["/usr/bin/env", "sh -e", "./job.sh", "x"]
    assert (spec.name, spec.app, spec.size_min) == ("job.sh", "job.sh", 2)


def test_a_script_with_a_directory_keeps_its_place(
    wattfold: Command, fake: FakeCoordinator, tmp_path: Path
) -> None:
    script("#SBATCH -D /")
    spec = submitted(wattfold, fake, "./job.sh")
    assert (list(spec.argv), spec.cwd) == ([str(tmp_path / "job.sh")], "/")
    spec = submitted(wattfold, fake, "sh", "job.sh")
    assert list(spec.argv) == ["sh", str(tmp_path / "job.sh")]


def test_a_script_as_data_of_another_program_is_not_read(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    script("#WATTFOLD --cores 2")
    assert submitted(wattfold, fake, "cat", "job.sh").size_min == 1
    assert submitted(wattfold, fake, "sh", "job.sh").size_min == 2


# ---- standard input ----------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("-", "x"), ()])
def test_a_script_from_standard_input_travels_with_the_job(
    wattfold: Command, fake: FakeCoordinator, words: tuple[str, ...]
) -> None:
    text = "#!/bin/sh\n#WATTFOLD --cores 3 --name n\necho $1\n"
    result = wattfold("submit", *words, stdin=text)
    assert result.exit_code == 0, result.output
    spec = fake.submissions[-1].spec
    assert list(spec.argv) == ["-", *words[1:]]
    assert (spec.size_min, spec.name, spec.app) == (3, "n", "n")
    assert spec.env["WATTFOLD_SCRIPT"] == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no command, and standard input is empty"),
        ("hostname\n", "its first line must name the interpreter"),
        ("#! \n", "its first line must name the interpreter"),
        ("#!/bin/sh\r\ntrue\r\n", "its lines end in CR LF"),
        ("#!/bin/sh\n\0", "NUL byte"),
        ("#!/bin/sh\n" + "#" * 2**18, "more than 256 KiB"),
        ("#!/no/such/shell\n", "no such program: /no/such/shell"),
        ("#!/bin/sh\n#WATTFOLD --x\n", "standard input:2: No such option"),
    ],
)
def test_what_cannot_run_is_refused(
    wattfold: Command, fake: FakeCoordinator, text: str, message: str
) -> None:
    result = wattfold("submit", "-", stdin=text)
    assert (result.exit_code, fake.submissions) == (2, []), result.output
    assert message in result.stderr

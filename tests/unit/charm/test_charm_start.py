"""Arguments and environment of a program started by charm_start."""

import json
import os
import subprocess
import sys

import pytest

from wattfold.contract.ccs_protocol import parse_key
from wattfold.shims.charm_start import (
    EXIT_NOT_FOUND,
    EXIT_USAGE,
    main,
    other_pes,
    pes_arguments,
    pes_wanted,
)

TELL = """
import json, os, sys
path = sys.argv[sys.argv.index("++server-auth") + 1]
# Another process of the same account opens it, as charmrun under a script does.
told = os.popen(f"cat {path}").read()
names = ("WATTFOLD_CCS_PORT", "WATTFOLD_CCS_KEY")
print(json.dumps([sys.argv[1:], told, *(os.environ[name] for name in names)]))
"""


def start(*arguments, launch_cpus=""):
    command = [sys.executable, "-m", "wattfold.shims.charm_start", "--"]
    program = [sys.executable, "-c", TELL, *(arguments or ("+p4", "input"))]
    environment = {k: v for k, v in os.environ.items() if k != "WATTFOLD_LAUNCH_CPUS"}
    if launch_cpus:
        environment["WATTFOLD_LAUNCH_CPUS"] = launch_cpus
    done = subprocess.run(
        [*command, *program], capture_output=True, text=True, check=True, env=environment
    )
    return json.loads(done.stdout)


def test_port_and_key_reach_both_the_program_and_its_environment():
    arguments, told, port, key = start()
    assert arguments[:2] == ["+p4", "input"]
    assert arguments[2:5] == ["++server", "++server-port", port]
    assert 0 < int(port) < 65_536
    assert told == f"0 {key}\n"
    assert len(parse_key(key)) == 16
    assert key not in " ".join(arguments)


def test_a_program_that_restarts_itself_has_its_processes_started_on_this_node():
    tell = """
import json, sys
told = {name: sys.argv[sys.argv.index(name) + 1] for name in ("++nodelist", "++remote-shell")}
print(json.dumps([open(told["++nodelist"]).read(), told["++remote-shell"].split()]))
"""
    command = [sys.executable, "-m", "wattfold.shims.charm_start", "--rebuild", "--"]
    environment = os.environ | {"WATTFOLD_LAUNCH_CPUS": "3"}
    done = subprocess.run(
        [*command, sys.executable, "-c", tell],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    nodes, shell = json.loads(done.stdout)
    assert nodes == "group main\n" + 3 * "host 127.0.0.1\n"
    # As charmrun does: options and a host; the command is last and its script is on the input.
    said = subprocess.run(
        [*shell, "127.0.0.1", "-l", "somebody", "/bin/sh -s"],
        input="echo $((40 + 2))",
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "42\n"
    assert subprocess.run(shell, capture_output=True, check=False).returncode == EXIT_USAGE


def test_every_start_has_its_own_key():
    assert start()[3] != start()[3]


def test_a_program_that_is_not_there_is_named(capsys):
    assert main(["--", "/nowhere/charmrun", "+p4"]) == EXIT_NOT_FOUND
    assert capsys.readouterr().err == "wattfold: /nowhere/charmrun: No such file or directory\n"


def test_help_names_every_option(capsys):
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert all(f"  {option}  " in printed for option in ("--charm4py", "--rebuild", "-h, --help"))


def test_without_a_program_the_usage_is_told(capsys):
    assert main([]) == EXIT_USAGE
    assert capsys.readouterr().err.startswith("usage: ")


def test_in_a_job_there_is_a_pe_for_each_core_it_can_get():
    arguments = start("input", launch_cpus="3")[0]
    assert arguments[:3] == ["input", "+p3", "++server"]
    assert start("input")[0][:2] == ["input", "++server"]


@pytest.mark.parametrize(
    "said", ["+p4", "++p", "++n", "++np", "+n", "++processPerHost", "++auto-provision"]
)
def test_a_command_that_says_how_many_pes_is_left_as_it_is(said):
    assert pes_arguments(["./charmrun", said, "./program"], 2) == []


def test_a_number_of_pes_that_maps_will_not_fit_is_told():
    assert "+p4 does not match the 2 cores of the job" in other_pes(["./charmrun", "+p4"], 2)
    assert other_pes(["./charmrun", "+p2"], 2) == ""
    assert other_pes(["./charmrun", "+p4"], None) == ""
    assert other_pes(["./charmrun", "++n", "4"], 2) == ""


@pytest.mark.parametrize("text", ["", "0", "x", "-1", "2.5"])
def test_an_odd_number_of_cores_is_none(text):
    assert pes_wanted({"WATTFOLD_LAUNCH_CPUS": text}) is None

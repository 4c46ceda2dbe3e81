"""Filters, orders and columns of `queue`, `nodes` and `history`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import pytest
from unit.cli.command import Command
from unit.cli.fake_coordinator import NOW_S, FakeCoordinator, W, node

from wattfold.coordinator.cli.history.history import history
from wattfold.coordinator.cli.jobs.lists.job_columns import JOB_COLUMNS, job_fields
from wattfold.coordinator.cli.jobs.lists.queue import queue
from wattfold.coordinator.cli.main import cli
from wattfold.coordinator.cli.shared.texts.columns import Field, Fields, Moment, Order
from wattfold.coordinator.cli.shared.texts.formats import plain_text
from wattfold.coordinator.cli.site import node_columns
from wattfold.v1 import coordinator_pb2 as pb

RUNNING, PENDING, HELD = pb.JOB_STATE_RUNNING, pb.JOB_STATE_PENDING, pb.JOB_STATE_HELD


def job(job_id: str, state: pb.JobState, **fields: object) -> pb.Job:
    made = pb.Job(job_id=job_id, state=state, submitted_at_s=NOW_S, access=pb.JOB_ACCESS_OWN)
    made.MergeFrom(pb.Job(**fields))
    return made


@pytest.fixture(autouse=True)
def cluster(fake: FakeCoordinator) -> None:
    share = pb.NodeShare(node_id="n1", cpus="0-2")
    spec = pb.JobSpec(name="a b", app="lammps", queue="short", account="lab", size_min=3)
    fake.add(
        job("2", RUNNING, user="ada", spec=spec, shares=[share], cap_uw=45 * W, energy_uj=5 * W)
    )
    fake.jobs["2"].started_at_s = time.time() - 100
    fake.add(job("10", RUNNING, user="bob", cap_uw=9 * W, energy_uj=8 * W))
    fake.add(job("3", PENDING, user="ada", spec=pb.JobSpec(app="lammps"), reason="needs 9 W"))
    fake.add(job("4", HELD, user="ada"))
    fake.jobs["4"].submitted_at_s = time.time() - 60
    fake.add(job("5", pb.JOB_STATE_FAILED, user="ada", ended_at_s=NOW_S + 5, exit_code=3))


def ids(wattfold: Command, *options: str) -> list[str]:
    result = wattfold("queue", "--no-header", "-o", "id", *options)
    assert result.exit_code == 0, result.output
    return result.stdout.split()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--state", "running"], ["2", "10"]),
        (["--state", "waiting,held"], ["3", "4"]),
        (["--state", "held", "--state", "failed"], ["4", "5"]),
        (["--user", "bob"], ["10"]),
        (["--app", "lammps"], ["2", "3"]),
        (["--app", "lammps", "--state", "pending"], ["3"]),
        (["--queue", "short"], ["2"]),
        (["--account", "lab"], ["2"]),
        (["--account", "none"], []),
        (["--node", "n2,n1"], ["2"]),
        (["--node", "n2"], []),
        (["--since", "1h"], ["4"]),
        (["--sort", "id"], ["2", "3", "4", "10"]),
        (["--sort", "-id"], ["10", "4", "3", "2"]),
        (["--sort", "-cap", "--limit", "1"], ["2"]),
        (["--sort", "energy", "--state", "running"], ["2", "10"]),
        (["--sort", "cap"], ["10", "2", "3", "4"]),
        (["--sort", "-cap"], ["2", "10", "3", "4"]),
        (["--start", "--sort", "-id"], ["4", "3"]),
        (["--start", "--state", "held,running"], ["4"]),
    ],
)
def test_options_choose_and_order_jobs(
    wattfold: Command, options: list[str], expected: list[str]
) -> None:
    assert ids(wattfold, *options) == expected
    assert [one["job_id"] for one in wattfold.json("queue", *options)["jobs"]] == expected


def test_counts_include_jobs_beyond_the_limit(wattfold: Command) -> None:
    first = wattfold("queue", "--all", "--limit", "1").stdout.splitlines()[0]
    assert first == "2 running, 1 waiting, 1 held, 1 failed"
    bare = wattfold("queue", "--no-header").stdout.splitlines()
    assert [line.split()[0] for line in bare] == ["2", "10", "3", "4"]


def test_columns_are_separated_by_tabs_and_never_empty(wattfold: Command) -> None:
    lines = wattfold("queue", "--format", "id,name,cap,cores,node_list,reason").stdout.splitlines()
    assert [line.split("\t") for line in lines] == [
        ["ID", "NAME", "CAP_W", "CORES", "NODE_LIST", "REASON"],
        ["2", "a b", "45", "3", "n1", "-"],
        ["10", "-", "9", "-", "-", "-"],
        ["3", "-", "-", "-", "-", "needs 9 W"],
        ["4", "-", "-", "-", "-", "-"],
    ]


@pytest.mark.skipif(shutil.which("awk") is None, reason="awk is not installed")
def test_awk_reads_the_columns_by_number(wattfold: Command) -> None:
    text = wattfold("queue", "--no-header", "-o", "app,cap,user").stdout
    summed = subprocess.run(
        ["awk", "{ watts += $2; last = $3 } END { print watts, last }"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    assert summed.stdout == "54 ada\n"


def test_times_are_iso_and_durations_seconds(wattfold: Command) -> None:
    [line] = wattfold(
        "queue", "--no-header", "--state", "failed", "-o", "submit,start,end,wait,time,exit"
    ).stdout.splitlines()
    submit, start, end, *rest = line.split("\t")
    assert (submit, end) == (plain_text(Moment(NOW_S)), plain_text(Moment(NOW_S + 5)))
    assert time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(NOW_S)) in submit
    assert [start, *rest] == ["-", "5", "-", "3"]


def test_csv_has_all_columns(wattfold: Command) -> None:
    head, first, *_ = wattfold("queue", "--format", "csv").stdout.splitlines()
    assert head.split(",")[:4] == ["id", "attempt", "user", "name"]
    assert {"cap_w", "wait_s", "energy_j"} <= set(head.split(","))
    assert len(head.split(",")) == len(first.split(",")) == len(JOB_COLUMNS)
    assert first.startswith("2,,ada,a b,lammps,short,running,,,3,3,,3,1,n1,45,")
    assert wattfold("queue", "--format", "json").stdout == wattfold("queue", "--json").stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["queue", "-o", "id,colour"], "no column 'colour'; give table, csv, json, or columns"),
        (["queue", "-o", ""], "no column ''"),
        (["queue", "--sort", "-colour"], "no column 'colour' to sort by; columns: id, attempt,"),
        (["queue", "--state", "asleep"], "no state 'asleep'; states: held, pending,"),
        (["queue", "--start", "--state", "running"], "--state names no such state"),
        (["queue", "--json", "-o", "id"], "--json and --format id exclude each other"),
        (["nodes", "-o", "cap_w"], "no column 'cap_w'; give table, csv, json, or columns"),
        (["nodes", "--state", "dead"], "no state 'dead'; states: up, closed,"),
        (["history", "--sort", "policy"], "no column 'policy' to sort by; columns: end, submit,"),
        (["history", "-o", "core_s"], "no column 'core_s'; give table, csv, json, or columns"),
    ],
)
def test_wrong_words_are_usage_errors_with_the_words_that_exist(
    address: str, arguments: list[str], told: str
) -> None:
    environment = dict(os.environ, WATTFOLD_COORDINATOR=address)
    words = [sys.executable, "-m", "wattfold.coordinator.cli.main", *arguments]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stdout == ""


def test_an_empty_list_is_a_sentence_for_people_and_nothing_for_scripts(wattfold: Command) -> None:
    sentence = "No matching jobs are waiting or running; --all includes ended jobs.\n"
    assert wattfold("queue", "--app", "none").stdout == sentence
    assert wattfold("queue", "--app", "none", "--no-header").stdout == ""
    assert wattfold("queue", "--app", "none", "-o", "id,cap").stdout == "ID\tCAP_W\n"
    assert wattfold("nodes", "--state", "down").stdout == "No matching nodes.\n"
    assert wattfold("nodes", "--state", "down", "-o", "node", "--no-header").stdout == ""


def test_nodes_are_chosen_and_ordered(wattfold: Command, fake: FakeCoordinator) -> None:
    fake.nodes = [node("n10"), node("n2", cpus="0-7"), node("n1")]
    fake.nodes[2].state = pb.NODE_STATE_DOWN
    fake.nodes[0].duty = pb.NODE_DUTY_DRAINING

    def names(*options: str) -> list[str]:
        return wattfold("nodes", "--no-header", "-o", "node", *options).stdout.split()

    assert names() == ["n10", "n2", "n1"]
    assert names("--sort", "node") == ["n1", "n2", "n10"]
    assert names("--sort", "-cpus") == ["n2", "n10", "n1"]
    assert names("--state", "up,drained") == ["n10", "n2"]
    assert names("--node", "n1,n2", "--state", "down") == ["n1"]
    line = wattfold("nodes", "-o", "node,state,free,cap,commit,jobs", "--node", "n2").stdout
    assert line == "NODE\tSTATE\tFREE\tCAP_W\tCOMMIT_W\tJOBS\nn2\tup\t8\t45\t65\t0\n"
    assert wattfold("nodes").stdout.splitlines()[0] == "1 drained, 1 up, 1 down"
    missing = wattfold("nodes", "--node", "n7")
    assert (missing.exit_code, "no node 'n7'" in str(missing.output)) == (4, True)


@pytest.mark.parametrize(
    ("words", "incomplete", "expected"),
    [
        ("queue --state ", "run", {"running"}),
        ("queue --state ", "running,he", {"running,held"}),
        ("queue --state ", "running,r", set()),
        ("queue --sort ", "pri", {"priority"}),
        ("queue --format ", "id,us", {"id,user"}),
        ("queue -o ", "c", {"csv", "cores", "cap"}),
        ("nodes --state ", "dr", {"draining", "drained"}),
        ("nodes --format ", "node,free_", {"node,free_memory", "node,free_gpus"}),
        ("history --sort ", "w", {"wait"}),
        ("history --state ", "failed,lo", {"failed,lost"}),
        ("cancel --state ", "pen", {"pending"}),
    ],
)
def test_shells_complete_columns_states_and_orders(
    words: str, incomplete: str, expected: set[str]
) -> None:
    from click.shell_completion import BashComplete

    completion = BashComplete(cli, {}, "wattfold", "_WATTFOLD_COMPLETE")
    found = completion.get_completions(words.split(), incomplete)
    assert {item.value for item in found} == expected


def test_the_same_options_have_the_same_names_in_all_lists() -> None:
    def options(command: object) -> set[str]:
        return {name for parameter in command.params for name in parameter.opts}  # type: ignore[attr-defined]

    common = {"--state", "--user", "--mine", "--app", "--queue", "--since", "--sort", "--limit"}
    common |= {"--account"}
    form = {"--format", "-o", "--no-header", "--json"}
    assert common | form <= options(queue)
    assert common | form <= options(history)
    assert {"--state", "--node", "--sort"} | form <= options(cli.get_command(None, "nodes"))  # type: ignore[arg-type]


def test_jobs_of_other_accounts_have_only_public_values() -> None:
    other = job("1", pb.JOB_STATE_FAILED, energy_uj=W, exit_code=3)
    other.access = pb.JOB_ACCESS_OTHER
    fields = job_fields(NOW_S)
    assert [fields[name].value(other) for name in ("energy", "exit", "name")] == [None, None, ""]


def test_a_node_outside_the_ledger_says_why() -> None:
    shown = node("n1", outside_uw=21 * W, duty_reason="new memory", waits_for="40 W")
    assert node_columns.FIELDS["reason"].value(shown) == "new memory; 40 W"
    assert node_columns.FIELDS["outside"].value(shown) == 21.0


def test_entries_without_a_value_are_last_in_both_orders() -> None:
    fields: Fields[int] = {"n": Field(lambda number: number or None)}
    assert Order("n").apply(fields, [3, 0, 1]) == [1, 3, 0]
    assert Order("n", descending=True).apply(fields, [3, 0, 1]) == [3, 1, 0]


def test_equal_entries_keep_their_order_in_both_orders() -> None:
    fields: Fields[int] = {"n": Field(lambda number: number % 2)}
    assert Order("n").apply(fields, [3, 2, 1, 4]) == [2, 4, 3, 1]
    assert Order("n", descending=True).apply(fields, [3, 2, 1, 4]) == [3, 1, 2, 4]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        ("", "-"),
        ("  ", "-"),
        ("a\nb", r"a\nb"),
        ("\0ff", r"\xff"),
        (0, "0"),
        (0.0, "0"),
        (1.5, "1.5"),
        (2.0, "2"),
        (1e-7, "0"),
        (123456789.25, "123456789.25"),
    ],
)
def test_plain_values(value: str | float | None, text: str) -> None:
    assert plain_text(value) == text

"""The remote shell in real jobs: transferred data, and its end with its job."""

from __future__ import annotations

import os
import signal
import uuid

from system.site.live_site import CPUS, thread_masks, wait_until
from system.steps.launcher_site import LauncherSite

from wattfold.v1 import coordinator_pb2 as pb


def mark() -> str:
    return f"mark_{uuid.uuid4().hex[:12]}"


def test_a_command_runs_on_the_other_node_as_if_it_were_here(any_site: LauncherSite) -> None:
    printed = any_site.done(
        'export COLOUR="dark  blue" TMPDIR=/nowhere; cd /tmp;'
        ' $RSH n1 "echo node=\\$WATTFOLD_NODE_ID rank=\\$WATTFOLD_RANK; pwd;'
        ' echo colour=\\"\\$COLOUR\\" tmp=\\$TMPDIR; echo oops >&2" 2>errors;'
        " cat errors; rm errors"
    )
    node, folder, variables, errors = printed.splitlines()
    assert (node, folder, errors) == ("node=n1 rank=1", "/tmp", "oops")
    colour, _, tmp = variables.rpartition(" tmp=")
    assert colour == "colour=dark  blue"
    assert "/nowhere" not in tmp


def test_steps_on_one_machine_have_temporary_files_of_their_own(site: LauncherSite) -> None:
    job_id = site.launch(
        'echo a > here; TMPDIR=$PWD; $RSH n1 "echo n1 > \\$TMPDIR/f; cat \\$TMPDIR/f;'
        ' echo \\$TMPDIR"; [ -e f ] || echo not here; read _ < over; rm here'
    )
    gate = site.work / "over"
    os.mkfifo(gate)
    word, folder, rest = site.says(job_id, "not here").splitlines()
    assert (word, rest) == ("n1", "not here")
    assert folder == str(site.steps_folder(1, job_id) / "tmp")
    assert os.listdir(folder) == ["f"]
    gate.write_text("go\n")
    assert site.ended(job_id).state == pb.JOB_STATE_COMPLETED
    gate.unlink()
    wait_until("its removal", lambda: not os.path.exists(folder))


def test_exit_codes_and_signals_come_back(any_site: LauncherSite) -> None:
    printed = any_site.done(
        '$RSH n1 true; echo $?; $RSH n1 "exit 3"; echo $?; $RSH n1 "kill -KILL \\$\\$"; echo $?;'
        ' $RSH n1 no-such-command; echo $?; $RSH n9 true; echo $?; $RSH n0 "exit 4"; echo $?;'
        ' $RSH localhost -l me "echo \\$WATTFOLD_NODE_ID"'
    )
    assert printed.split() == ["0", "3", "137", "127", "255", "4", "n0"]


def test_input_and_output_of_any_size_pass_unchanged(any_site: LauncherSite) -> None:
    printed = any_site.done(
        "head -c 5000000 /dev/urandom > data; $RSH n1 cat < data > back;"
        " cmp data back && echo same;"
        ' $RSH n1 "head -c 3000000 /dev/zero" | wc -c;'
        # The output is not fully read: neither command may wait forever.
        ' yes | $RSH n1 "head -n 1"; $RSH -n n1 "wc -c" < data; rm data back'
    )
    assert printed.split() == ["same", "3000000", "y", "0"]


def test_output_nobody_takes_holds_the_command_up(site: LauncherSite) -> None:
    # More than all pipes and sockets in between hold, so the command ends only when it is read.
    job_id = site.launch(
        'mkfifo f; $RSH n1 "head -c 40000000 /dev/zero; touch over" > f & exec 3< f;'
        " head -c 1000 <&3 | wc -c; read _ < go; [ -e over ] || echo held; cat <&3 | wc -c;"
        " wait; rm f over"
    )
    gate = site.work / "go"
    os.mkfifo(gate)
    site.says(job_id, "1000")
    gate.write_text("go\n")
    assert site.ended(job_id).state == pb.JOB_STATE_COMPLETED
    assert site.printed(job_id).split() == ["1000", "held", "39999000"]
    gate.unlink()


def test_signals_reach_the_command_there(any_site: LauncherSite) -> None:
    printed = any_site.done(
        'for s in TERM HUP USR1; do rm -f up; $RSH n1 "trap \\"echo got $s; exit 9\\" $s;'
        ' touch up; while :; do sleep 0.05; done" & p=$!; until [ -e up ]; do sleep 0.02; done;'
        " kill -$s $p; wait $p; echo $?; done; rm -f up",
    )
    # Not SIGINT: a shell without job control starts its background commands with it ignored.
    assert printed == "got TERM\n9\ngot HUP\n9\ngot USR1\n9\n"


def test_a_remote_shell_that_is_killed_takes_its_command_along(any_site: LauncherSite) -> None:
    word = mark()
    gate = any_site.work / f"{word}.go"
    os.mkfifo(gate)
    job_id = any_site.launch(
        f'$RSH n1 "trap : HUP TERM; export M={word}; sleep 1000 & echo up;'
        f' while :; do wait; done" & p=$!; read _ < {word}.go; kill -KILL $p; wait $p; echo killed;'
        " sleep 1000"
    )
    wait_until("the command there", lambda: len(any_site.marked(word)) > 2)
    any_site.says(job_id, "up")
    there = {pid for pid in any_site.marked(word) if b"\0M=" in environment(pid)}
    assert there
    gate.write_text("go\n")
    any_site.says(job_id, "killed")
    wait_until("its end", lambda: not [p for p in there if os.path.exists(f"/proc/{p}")])
    assert any_site.job(job_id).state == pb.JOB_STATE_RUNNING
    any_site.client.cancel(job_id)
    assert any_site.ended(job_id).state == pb.JOB_STATE_CANCELLED


def environment(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""


def test_what_a_step_leaves_behind_stays_until_the_job_ends(any_site: LauncherSite) -> None:
    word = mark()
    job_id = any_site.launch(
        f'$RSH n1 "{word}=1 setsid sleep 1000 > /dev/null 2>&1 < /dev/null &"; echo back;'
        " sleep 1000"
    )
    any_site.says(job_id, "back")
    assert any_site.marked(word)
    any_site.client.cancel(job_id)
    assert any_site.ended(job_id).state == pb.JOB_STATE_CANCELLED
    any_site.gone(word)


def test_the_end_of_the_launcher_ends_its_steps_and_is_the_result(any_site: LauncherSite) -> None:
    word = mark()
    job_id = any_site.launch(
        f'$RSH n1 "{word}=1 sleep 1000" & until $RSH n1 true; do :; done; exit 7'
    )
    job = any_site.ended(job_id)
    assert (job.state, job.exit_code) == (pb.JOB_STATE_FAILED, 7)
    any_site.gone(word)
    for index in (0, 1):
        assert not any_site.steps_folder(index, job_id).exists()


def test_a_step_host_that_is_killed_fails_the_job(site: LauncherSite) -> None:
    word = mark()
    job_id = site.launch(
        f'{word}=1 $RSH n1 "echo up; {word}=1 exec sleep 1000"; echo $?; sleep 1000'
    )
    site.says(job_id, "up")
    os.kill(site.step_host(), signal.SIGKILL)
    job = site.ended(job_id)
    assert (job.state, job.exit_code) == (pb.JOB_STATE_FAILED, 137)
    assert "the step host on n1 ended before the launcher" in job.message
    site.gone(word)


def test_steps_are_on_the_cores_of_the_job_and_counted_for_it(site: LauncherSite) -> None:
    job_id = site.launch(
        '$RSH n1 "grep Cpus_allowed_list /proc/self/status; i=0; while [ \\$i -lt 200000 ];'
        ' do i=\\$((i+1)); done; echo counted"; sleep 1000'
    )
    text = site.says(job_id, "counted")
    assert f"Cpus_allowed_list:\t{CPUS}" in text
    host = site.step_host()
    assert set(thread_masks(host).values()) == {CPUS}
    used = wait_until(
        "its CPU time",
        lambda: [p.cpu_ns for p in site.node_processes(1) if p.job_id == job_id and p.cpu_ns > 1e8],
    )
    assert used
    site.client.cancel(job_id)
    site.ended(job_id)


def test_an_agent_that_is_killed_breaks_no_step_and_the_next_one_starts_more(
    site: LauncherSite,
) -> None:
    job_id = site.launch(
        '$RSH n1 "echo up; read line; echo got $line" < gate & s=$!; exec 3> gate;'
        " until [ -e restarted ]; do sleep 0.05; done; echo word >&3; exec 3>&-; wait $s;"
        ' $RSH n1 "echo again"; rm restarted gate',
    )
    os.mkfifo(site.work / "gate") if not (site.work / "gate").exists() else None
    site.says(job_id, "up")
    site.kill_agent(1)
    site.start_agent(1)
    (site.work / "restarted").touch()
    text = site.says(job_id, "again")
    assert "got" in text
    assert site.ended(job_id).state == pb.JOB_STATE_COMPLETED


def test_the_files_of_a_job_are_its_accounts_only(site: LauncherSite) -> None:
    printed = site.done("stat -c %a $WATTFOLD_STEPS; stat -c '%a %n' $WATTFOLD_STEPS/*")
    folder, *files = printed.splitlines()
    modes = {path.rpartition("/")[2]: mode for mode, path in map(str.split, files)}
    assert (folder, modes.pop("tmp")) == ("700", "700")
    assert set(modes.values()) == {"600"}
    assert len(modes) > 3


def test_environment_of_a_step_has_no_secret(site: LauncherSite) -> None:
    job_id = site.launch(
        'cp $WATTFOLD_STEPS/key k; env > e1; $RSH n1 "env; cat /proc/self/environ" > e2'
    )
    assert site.ended(job_id).state == pb.JOB_STATE_COMPLETED
    key = (site.work / "k").read_bytes()
    for name in ("e1", "e2"):
        text = (site.work / name).read_bytes()
        assert text
        assert key not in text
        assert key.hex().encode() not in text

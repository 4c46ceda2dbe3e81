"""Certificates in the command: stored from files, shown, and used by `submit`."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from unit.cli.command import Command
from unit.cli.fake_coordinator import NOW_S, FakeCoordinator

from wattfold.v1 import common_pb2 as common
from wattfold.v1 import coordinator_pb2 as pb

TRUE = Path(shutil.which("true") or "/bin/true")
SUM = hashlib.sha256(TRUE.read_bytes()).hexdigest()


def certificate(mode: str = "team", **more: Any) -> dict[str, Any]:
    return {
        "mode": mode,
        "reason": "" if mode == "team" else "resized, it was ended by signal 6",
        "sha256": SUM,
        "program": str(TRUE),
        "argv": ["true", "-x"],
        "acknowledged": 321,
        "threads": 4,
        "sizes": [1, 2, 4],
        "compared": ["standard output"],
        "comparison": "bit by bit",
        "made_at_s": NOW_S,
        **more,
    }


def put(fake: FakeCoordinator, evidence: dict[str, Any], app: str = "true") -> None:
    mode = common.RESIZE_MODE_TEAM if evidence["mode"] == "team" else common.RESIZE_MODE_MASK
    fake.profiles[app] = pb.Profile(
        app=app, mode=mode, certificate=json.dumps(evidence), source="certified", updated_at_s=NOW_S
    )


def spec_of(fake: FakeCoordinator) -> pb.JobSpec:
    return fake.submissions[-1].spec


def test_a_certified_program_is_resized_by_team(wattfold: Command, fake: FakeCoordinator) -> None:
    put(fake, certificate())
    result = wattfold("submit", "--cores", "1-4", "true")
    assert (result.exit_code, result.stderr) == (0, "")
    assert spec_of(fake).mode == common.RESIZE_MODE_TEAM
    assert spec_of(fake).mode_source == (
        f"certificate of application 'true' for this program (SHA-256 {SUM[:12]}..., "
        "321 changes tested, up to 4 threads)"
    )
    shown = wattfold("show", "job-1").stdout
    assert "malleable, resized by team" in shown
    assert "certificate of application 'true'" in shown


def test_the_name_of_the_application_chooses_the_certificate(
    wattfold: Command, fake: FakeCoordinator, tmp_path: Path
) -> None:
    put(fake, certificate(), app="mine")
    shutil.copy(TRUE, tmp_path / "program")
    arguments = ("submit", "--cores", "1-4", "--app", "mine", "--cwd", str(tmp_path), "./program")
    assert wattfold(*arguments).exit_code == 0
    assert spec_of(fake).mode == common.RESIZE_MODE_TEAM


def test_another_build_is_not_certified(wattfold: Command, fake: FakeCoordinator) -> None:
    put(fake, certificate(sha256="cd" * 32))
    result = wattfold("submit", "--cores", "1-4", "true")
    assert (result.exit_code, result.stdout) == (0, "job-1\n")
    assert spec_of(fake).mode == common.RESIZE_MODE_MASK
    said = "the certificate of application 'true' does not apply: it belongs to another build"
    assert result.stderr.startswith(f"wattfold: {said} (SHA-256 cdcdcdcdcdcd")
    assert said in spec_of(fake).mode_source


def test_a_program_that_is_only_on_the_nodes(wattfold: Command, fake: FakeCoordinator) -> None:
    put(fake, certificate(), app="far")
    arguments = ("submit", "--cores", "1-4", "--app", "far", "--no-check", "/nowhere/program")
    result = wattfold(*arguments)
    assert spec_of(fake).mode == common.RESIZE_MODE_MASK
    assert "the program '/nowhere/program' cannot be read on this machine" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "mode", "source"),
    [
        (("--cores", "1-4", "--mode", "mask"), common.RESIZE_MODE_MASK, "requested"),
        (("--cores", "1-4", "--mode", "fixed"), common.RESIZE_MODE_FIXED, "requested"),
        (("--cores", "2"), common.RESIZE_MODE_FIXED, "default for jobs that keep their size"),
    ],
)
def test_a_certificate_is_for_those_who_did_not_choose(
    wattfold: Command,
    fake: FakeCoordinator,
    arguments: tuple[str, ...],
    mode: common.ResizeMode,
    source: str,
) -> None:
    put(fake, certificate())
    assert wattfold("submit", *arguments, "true").exit_code == 0
    assert (spec_of(fake).mode, spec_of(fake).mode_source) == (mode, source)


def test_an_unfit_program_keeps_the_default_and_the_reason(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    put(fake, certificate("mask"))
    result = wattfold("submit", "--cores", "1-4", "true")
    assert (spec_of(fake).mode, result.stderr) == (common.RESIZE_MODE_MASK, "")
    assert spec_of(fake).mode_source.endswith(
        "not fit for team mode: resized, it was ended by signal 6"
    )


def test_what_a_program_said_does_not_steer_terminals(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    put(fake, certificate("mask", reason="ended: \x1b[31mred\nline"))
    assert wattfold("submit", "--cores", "1-4", "true").exit_code == 0
    assert spec_of(fake).mode_source.endswith("ended:  [31mred line")
    assert "\x1b" not in wattfold("profiles", "true").stdout


@pytest.mark.parametrize("text", ["", "{", "[]", '{"mode": "map"}'])
def test_a_certificate_that_cannot_be_read_is_none(
    wattfold: Command, fake: FakeCoordinator, text: str
) -> None:
    fake.profiles["true"] = pb.Profile(app="true", mode=common.RESIZE_MODE_TEAM, certificate=text)
    assert wattfold("submit", "--cores", "1-4", "true").exit_code == 0
    assert spec_of(fake).mode == common.RESIZE_MODE_MASK


def test_profiles_show_certificates(wattfold: Command, fake: FakeCoordinator) -> None:
    put(fake, certificate())
    put(fake, certificate("mask"), app="other")
    fake.profiles["true"].MergeFrom(pb.Profile(t1_s=10, source="measured"))
    header, first, second = wattfold("profiles").stdout.splitlines()
    assert "CERTIFIED" in header
    assert "team" in first
    assert second.split()[:10] == ["other", *("-",) * 8, "mask"]
    both = wattfold("profiles", "true").stdout
    assert "T1 = 10.000 s" in both
    assert "fit for team mode (321 team changes tested)" in both
    bare = wattfold("profiles", "other").stdout
    assert "not fit for team mode: resized, it was ended by signal 6" in bare
    assert "T1" not in bare


@pytest.mark.parametrize(("certified", "mode"), [(True, "team"), (False, "mask")])
def test_on_its_cores_a_program_is_resized_as_far_as_it_is_certified(
    wattfold: Command, fake: FakeCoordinator, certified: bool, mode: str
) -> None:
    if certified:
        put(fake, certificate())
    assert wattfold("submit", "--cores", "1-4", "--resize", "cores", "true").exit_code == 0
    assert spec_of(fake).mode == common.ResizeMode.Value(f"RESIZE_MODE_{mode.upper()}")


def test_profiles_show_what_changes_of_size_have_cost(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    ways = ((common.RESIZE_MODE_MAP, 31_000_000, 4 << 20), (common.RESIZE_MODE_MASK, 0, None))
    costs = [
        pb.ResizeCost(
            mode=mode,
            unit=pb.SIZE_UNIT_CORES,
            changes=3,
            stalled_ns=stalled_ns,
            moved_bytes=moved,
            took_ns=90_000_000,
        )
        for mode, stalled_ns, moved in ways
    ]
    fake.profiles["rod"] = pb.Profile(app="rod", source="resizes", resize_costs=costs)
    header, line = wattfold("profiles").stdout.splitlines()
    assert "RESIZES" in header
    assert "map 31 ms, cores 0" in line
    table = wattfold("profiles", "rod").stdout.splitlines()
    assert table[1].split() == ["map", "cores", "3", "31", "ms", "-", "4.0", "MiB", "90", "ms"]
    assert table[2].split() == ["cores", "cores", "3", "0", "-", "-", "90", "ms"]


def test_odd_evidence_is_shown_as_far_as_it_goes(wattfold: Command, fake: FakeCoordinator) -> None:
    put(fake, {"mode": "team", "sizes": 4, "argv": "x", "acknowledged": "many", "made_at_s": 1e300})
    shown = wattfold("profiles", "true")
    assert shown.exit_code == 0
    assert "fit for team mode (0 team changes tested)" in shown.stdout


def test_a_certificate_from_a_file_is_stored_and_leaves_the_model(
    wattfold: Command, fake: FakeCoordinator, tmp_path: Path
) -> None:
    fake.profiles["true"] = pb.Profile(app="true", t1_s=10, source="measured")
    file = tmp_path / "c.json"
    file.write_text(json.dumps({"app": "true", "certificate": certificate()}))
    result = wattfold("certify", "--put", str(file))
    assert (result.exit_code, result.stdout) == (0, "Stored as 'true'.\n")
    stored = fake.profiles["true"]
    assert (stored.t1_s, stored.mode) == (10, common.RESIZE_MODE_TEAM)
    assert json.loads(stored.certificate) == certificate()
    assert wattfold("certify", "--put", str(file), "--app", "x").exit_code == 0
    assert fake.profiles["x"].mode == common.RESIZE_MODE_TEAM


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot read"),
        ("{", "is not a certificate"),
        ("[]", "is not a certificate of `wattfold certify`: it is not a JSON object"),
        ('{"app": "a b", "certificate": {"mode": "team"}}', "'a b' is not a valid name"),
        ('{"app": "a", "certificate": {"mode": "map"}}', "it has no mode"),
        ('{"app": "a", "certificate": {"mode": "team", "x": NaN}}', "NaN is not a number"),
    ],
)
def test_a_file_that_is_no_certificate(
    wattfold: Command, fake: FakeCoordinator, tmp_path: Path, text: str | None, message: str
) -> None:
    file = tmp_path / "c.json"
    if text is not None:
        file.write_text(text)
    result = wattfold("certify", "--put", str(file))
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert fake.profiles == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no program given"),
        (("no-such-program",), "command not found"),
        (("--app", "a b", "true"), "--app 'a b' is not a valid name"),
        (("--threads", "1", "true"), "--threads"),
        (("--relative", "-1", "true"), "--relative"),
        (("--relative", "nan", "true"), "tolerance must be a finite number"),
        (("--ignore", "(", "true"), "'(' is not a regular expression"),
        (("--check", "no-such-check", "true"), "--check 'no-such-check': no such command"),
        (("--check", "'", "true"), "No closing quotation"),
        (("--no-stdout", "true"), "nothing to compare"),
        (("--compare", "/etc/passwd", "true"), "must be relative"),
        (("--compare", "../x", "true"), "must be relative"),
        (("--folder", "/nowhere", "true"), "does not exist"),
        (("--shim", "/nowhere.so", "true"), "does not exist"),
        (("--limit", "5", "true"), "not a duration"),
        (("--output", "/nowhere/c.json", "true"), "no such directory"),
        (("--put", "c.json", "true"), "--put cannot be combined with a program"),
        (("--folder", "/usr", "true"), "too much to copy"),
    ],
)
def test_mistakes_are_found_before_the_first_run(
    wattfold: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    # Any file will do, because the shim is never loaded.
    result = wattfold("certify", *arguments, env={"WATTFOLD_OMP_SHIM": str(TRUE)})
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_no_shim_is_told(wattfold: Command, tmp_path: Path) -> None:
    result = wattfold("certify", "true", env={"WATTFOLD_OMP_SHIM": str(tmp_path / "absent.so")})
    assert result.exit_code == 1
    assert "the OpenMP shim is not installed; install" in result.stderr


def test_a_store_that_cannot_be_reached_is_told_before_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nobody = Command(f"unix:{tmp_path}/none.sock")
    result = nobody("certify", "--store", "true", env={"WATTFOLD_OMP_SHIM": str(TRUE)})
    assert result.exit_code == 3
    assert "static run" not in result.stderr

"""Certificates at a real coordinator: stored, used by submissions, explained, safe in a crash."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from system.site.live_site import ROOT, LiveSite

from wattfold.v1 import common_pb2


@pytest.fixture(scope="module")
def site(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=1)


def test_a_certificate_decides_the_mode_and_outlives_the_coordinator(
    site: LiveSite, tmp_path: Path
) -> None:
    program = tmp_path / "app"
    shutil.copy(ROOT / "build" / "shims" / "examples" / "compute", program)
    evidence = {
        "mode": "team",
        "sha256": hashlib.sha256(program.read_bytes()).hexdigest(),
        "acknowledged": 100,
    }
    file = tmp_path / "certificate.json"
    file.write_text(json.dumps({"app": "app", "certificate": evidence}))
    site.wattfold("certify", "--put", str(file))
    site.coordinator.send_signal(signal.SIGKILL)
    site.coordinator.wait()
    site.restart_coordinator()
    (kept,) = json.loads(site.wattfold("--json", "profiles").stdout)["profiles"]
    assert (kept["mode"], json.loads(kept["certificate"])) == ("RESIZE_MODE_TEAM", evidence)

    submitted = site.wattfold("submit", "--cores", "1-2", str(program), "200000", cwd=tmp_path)
    first = submitted.stdout.strip()
    site.running(first)
    assert site.job(first).spec.mode == common_pb2.RESIZE_MODE_TEAM
    explained = site.wattfold("explain", first).stdout
    assert "Resized by team: certificate of application 'app' for this program" in explained
    site.cancel_all()
    assert "Resized by team" in site.wattfold("explain", first).stdout

    program.write_bytes(program.read_bytes() + b"\0")
    other = site.wattfold("submit", "--hold", "--cores", "1-2", str(program), cwd=tmp_path)
    assert "does not apply: it belongs to another build" in other.stderr
    explained = site.wattfold("explain", other.stdout.strip()).stdout
    assert "Resized by mask: default; the certificate of application 'app'" in explained
    site.cancel_all()

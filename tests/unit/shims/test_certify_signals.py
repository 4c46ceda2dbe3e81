"""A signal during the start of a program by `certify` also ends the program."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from wattfold.shims.certify_run import Program, run_alone


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_the_start_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def interrupted(*words: Any, **options: Any) -> subprocess.Popen[bytes]:
        process = start(*words, **options)
        started.append(process)
        signal.raise_signal(number)
        return process

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    (tmp_path / "folder").mkdir()
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    before = signal.signal(number, end)
    try:
        with pytest.raises(SystemExit, match=str(128 + number)):
            run_alone(Program(argv=("sleep", "1000"), folder=tmp_path / "folder"), 60.0)
        assert signal.getsignal(number) is end
        assert [process.returncode for process in started] == [-signal.SIGKILL]
    finally:
        signal.signal(number, before)
        for process in started:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

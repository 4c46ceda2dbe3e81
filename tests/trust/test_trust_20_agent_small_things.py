"""Details of the agent and of starting the commands, each as its user meets it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
from system.agent.agent_process import NOBODY

from wattfold.coordinator.adapters.config.settings import load as load_coordinator
from wattfold.coordinator.adapters.config.values import ConfigError as CoordinatorConfigError
from wattfold.nodeagent.adapters.config import load
from wattfold.nodeagent.adapters.config_error import ConfigError
from wattfold.nodeagent.adapters.state_store import StateDirError, private_folder
from wattfold.shims import locate

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SCRIPTS: dict[str, str] = PYPROJECT["project"]["scripts"]
SOURCES = ":".join(str(ROOT / source) for source in PYPROJECT["tool"]["hatch"]["build"]["targets"]
                   ["wheel"]["sources"])  # fmt: skip


def entry(command: str) -> list[str]:
    """Arguments of Python that start a command as its installed script does."""
    module, function = SCRIPTS[command].split(":")
    return ["-c", f"import sys; sys.argv[0] = {command!r}; import {module} as m; m.{function}()"]


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """PYTHONPATH of an installation by `pip install .` without an extra."""
    site = tmp_path / "site"
    site.mkdir()
    installed = Path(sysconfig.get_path("purelib"))
    client = ("click", "rich", "pygments", "markdown_it", "mdurl")
    for package in ("grpc", "google", "typing_extensions.py", *client):
        (site / package).symlink_to(installed / package)
    return f"{SOURCES}:{site}"


@pytest.mark.parametrize("command", sorted(SCRIPTS))
def test_a_command_without_its_packages_names_the_extra(bare: str, command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-S", *entry(command), "--help"],
        env={"PYTHONPATH": bare, "PATH": os.defpath},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert "Traceback" not in done.stderr
    if command in ("wattfold", "wattfold-rsh"):
        assert (done.returncode, done.stderr) == (0, "")
        return
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"{command}: the Python package" in done.stderr
    extra = command.removeprefix("wattfold-")
    assert f"pip install 'wattfold[{extra}]'" in done.stderr


def test_a_client_without_its_own_packages_names_no_extra() -> None:
    done = subprocess.run(
        [sys.executable, "-S", *entry("wattfold"), "--help"],
        env={"PYTHONPATH": SOURCES, "PATH": os.defpath},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "pip install 'wattfold' (in a checkout: pip install '.')" in done.stderr


@pytest.mark.parametrize(
    "line",
    ["wattfold-agent check --emulate", "wattfold-agent --help", "wattfold policies --json",
     "wattfold --help", "wattfold-coordinator --help"],
)  # fmt: skip
def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path, line: str) -> None:
    command, *arguments = line.split()
    if command == "wattfold-agent" and "check" in arguments:
        arguments += ["--state-dir", str(tmp_path / "state"), "--run-dir", str(tmp_path / "run")]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            [sys.executable, *entry(command), *arguments],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            timeout=240,
            check=False,
        )
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_the_agent_finds_an_installed_shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "platlib/wattfold/shims/lib"
    place.mkdir(parents=True)
    library = place / locate.OMP_SHIM_FILE
    library.write_bytes(b"\x7fELF")
    monkeypatch.delenv(locate.OMP_SHIM_VARIABLE, raising=False)
    arguments = ["--state-dir", str(tmp_path / "s"), "--run-dir", str(tmp_path / "r"), "--emulate"]
    script = (
        "import sys, sysconfig; from wattfold.nodeagent.adapters.config import load;"
        f"sysconfig.get_path = lambda name, *rest: {str(tmp_path / 'platlib')!r};"
        "print(load(sys.argv[1:]).omp_shim)"
    )

    def found(*more: str) -> str:
        command = [sys.executable, "-c", script, *arguments, *more]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=240, check=True
        ).stdout.strip()

    assert found() == str(library)
    assert found("--omp-shim", "off") == ""


def test_a_wrong_key_is_reported_where_it_stands(tmp_path: Path) -> None:
    agent = tmp_path / "agent.toml"
    agent.write_text("package_min_w = 30.0\nemulate = true\n[emulation]\npackage_min_w = -1.0\n")
    with pytest.raises(ConfigError, match=r"agent\.toml:4: package_min_w"):
        load(["--config", str(agent)])
    head = tmp_path / "coordinator.toml"
    node = '[[node]]\nid = "{}"\naddress = "unix:/a"\n{}'
    head.write_text(node.format("n1", "") + node.format("n2", 'adress = "x"\n'))
    with pytest.raises(CoordinatorConfigError, match=r"line 7: unknown setting node\.adress"):
        load_coordinator(head, {})
    head.write_text(node.format("n1", "") + node.format("n1", ""))
    with pytest.raises(CoordinatorConfigError, match="line 5: node n1 is listed twice"):
        load_coordinator(head, {})
    head.write_text('policy = "fifo"\n[fifo]\nsize = "max"\n[parm]\nsize = "max"\n')
    with pytest.raises(CoordinatorConfigError, match=r"line 5: unknown setting parm\.size"):
        load_coordinator(head, {})


def test_a_folder_above_that_another_account_can_replace_is_refused(tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(StateDirError, match=r"parent folder .*open has mode 777"):
        private_folder(open_to_all / "state")
    # As in /tmp: only the owner can rename its entries.
    open_to_all.chmod(0o1777)
    assert private_folder(open_to_all / "state").is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a folder away")
def test_a_folder_above_of_another_account_is_refused(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    with pytest.raises(StateDirError, match=f"parent folder .*theirs belongs to uid {NOBODY}"):
        private_folder(theirs / "wattfold" / "state")
    (tmp_path / "link").symlink_to(theirs)
    with pytest.raises(StateDirError, match=f"parent folder .* belongs to uid {NOBODY}"):
        private_folder(tmp_path / "link" / "state")
    assert list(theirs.iterdir()) == []

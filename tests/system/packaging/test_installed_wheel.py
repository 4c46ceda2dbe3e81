"""The wheel, installed into empty environments: each extra is complete on its own and small.

Versions and downloads come from the cache of uv or from the package index. Without both, the tests
are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
MB = 1_000_000
CLIENT_MB = 100
AGENT_MORE_MB = 60

pytestmark = [pytest.mark.system, pytest.mark.cold_start]


class Installed:
    """A virtual environment with the wheel and the packages of an extra."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(exist_ok=True)
        self.environment = {"HOME": str(self.home), "PATH": os.defpath, "LANG": "C.UTF-8"}

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a command of this environment without any variable of the test's own."""
        return subprocess.run(
            self.words(line),
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def words(self, line: str) -> list[str]:
        """Return the arguments that start a command of this environment."""
        command, *arguments = line.split()
        return [str(self.folder / "bin" / command), *arguments]

    def refuses(self, line: str, extra: str) -> None:
        """Check that a command ends with one line that names the extra."""
        done = self.run(line)
        assert (done.returncode, done.stdout) == (2, ""), done
        assert done.stderr.count("\n") == 1, done.stderr
        assert f"pip install 'wattfold[{extra}]'" in done.stderr

    def size_mb(self) -> float:
        """Return the size of all files except compiled Python and the test's own, in MB."""
        files = (self.folder / "lib").rglob("*")
        return sum(f.lstat().st_size for f in files if f.is_file() and f.suffix != ".pyc") / MB


Install = Callable[[str], Installed]


@pytest.fixture(scope="module")
def install(tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Install the wheel with an extra; each extra once."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    uv = str(Path(sys.executable).parent / "uv")
    made: dict[str, Installed] = {}

    def installed(extra: str) -> Installed:
        if extra in made:
            return made[extra]
        target = folder / (extra or "client")
        subprocess.run([uv, "venv", "-q", "-p", sys.executable, str(target)], check=True)
        what = f"wattfold{f'[{extra}]' if extra else ''} @ {wheel.as_uri()}"
        line = [uv, "pip", "install", "-q", "-p", str(target / "bin/python"), what]
        done = subprocess.run(line, check=False, capture_output=True, text=True, timeout=600)
        if done.returncode and "ailed to fetch" in done.stderr:
            pytest.skip(f"no package index: {done.stderr.splitlines()[-1].strip()}")
        assert done.returncode == 0, done.stderr
        made[extra] = Installed(target)
        return made[extra]

    return installed


def test_without_an_extra_the_client_works(install: Install) -> None:
    client = install("")
    assert client.size_mb() < CLIENT_MB
    done = client.run("wattfold queue")
    assert done.returncode == 3
    assert done.stderr.startswith("wattfold: no coordinator at unix:")
    # Lists are tables of rich, which an answer of the coordinator would load.
    assert list(client.folder.glob("lib/python3*/site-packages/rich/table.py"))
    assert client.run("wattfold --version").stdout.startswith("wattfold, version ")
    assert "_wattfold_completion" in client.run("wattfold completion bash").stdout


@pytest.mark.parametrize(
    ("line", "extra"),
    [
        ("wattfold policies", "simulator"),
        ("wattfold simulate --model lublin --jobs 9 --nodes 4", "simulator"),
        ("wattfold compare --model lublin --jobs 9 --nodes 4", "simulator"),
        ("wattfold reproduce parm", "simulator"),
        ("wattfold workload describe log.swf", "simulator"),
        ("wattfold profile -- true", "simulator"),
        ("wattfold profile epochs -- true", "simulator"),
        ("wattfold certify -- true", "agent"),
        ("wattfold-agent check", "agent"),
        ("wattfold-coordinator check", "coordinator"),
    ],
)
def test_the_client_names_the_extra_of_other_commands(
    install: Install, line: str, extra: str
) -> None:
    install("").refuses(line, extra)
    *command, _ = line.split(" ", 2) if line.startswith("wattfold ") else [line, ""]
    assert extra != "simulator" or install("").run(f"{' '.join(command)} --help").returncode == 0


def test_the_agent_is_small_and_has_the_client(install: Install, tmp_path: Path) -> None:
    agent = install("agent")
    assert agent.size_mb() < install("").size_mb() + AGENT_MORE_MB
    assert agent.run("wattfold queue").returncode == 3
    folders = f"--state-dir {tmp_path}/state --run-dir {tmp_path}/run"
    done = agent.run(f"wattfold-agent check --emulate {folders}")
    assert done.returncode in (0, 1), done
    assert "the agent starts but starts no job" in " ".join(done.stdout.split())
    assert "no wattfold-keeper" in " ".join(done.stdout.split())
    # The program is short of certification, but not of packages.
    assert "Python package" not in agent.run("wattfold certify --no-store -- true").stderr


def test_the_agent_finds_the_wheel_of_the_shims_and_its_keeper(
    install: Install, tmp_path: Path
) -> None:
    agent = install("agent")
    uv = str(Path(sys.executable).parent / "uv")
    build = [uv, "build", "-q", "--wheel", "-o", str(tmp_path), str(ROOT / "runtime_shims")]
    done = subprocess.run(build, check=False, capture_output=True, text=True, timeout=600)
    if done.returncode and "ailed to fetch" in done.stderr:
        pytest.skip(f"no package index: {done.stderr.splitlines()[-1].strip()}")
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("wattfold_shims-*-py3-none-*.whl")
    python = str(agent.folder / "bin/python")
    subprocess.run([uv, "pip", "install", "-q", "-p", python, str(wheel)], check=True, timeout=300)
    folders = f"--state-dir {tmp_path}/state --run-dir {tmp_path}/run"
    report = agent.run(f"wattfold-agent check --emulate --json {folders}").stdout
    assert str(agent.folder / "lib") in report
    assert "libwattfold_omp.so" in report
    findings = {found["subject"]: found for found in json.loads(report)["findings"]}
    assert findings["keeper"]["status"] == "ok", findings
    (keeper,) = agent.folder.glob("lib/python3*/site-packages/wattfold/shims/lib/wattfold-keeper")
    assert os.access(keeper, os.X_OK)


@contextmanager
def service(words: list[str], environment: dict[str, str]) -> Iterator[None]:
    """A service that runs inside of this context."""
    with subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield
        finally:
            process.terminate()
            process.communicate(timeout=60)


def test_the_coordinator_is_complete(install: Install, tmp_path: Path) -> None:
    head = install("coordinator")
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n", encoding="utf-8")
    token.chmod(0o600)
    settings = tmp_path / "coordinator.toml"
    settings.write_text(
        f'listen = "unix:{tmp_path}/c.sock"\nstate_dir = "{tmp_path}/state"\nbudget_w = 500\n'
        f'agent_token_file = "{token}"\npolicy = "parm-wse"\n'
        f'[[node]]\nid = "n0"\naddress = "unix:{tmp_path}/n0.sock"\n',
        encoding="utf-8",
    )
    assert head.run(f"wattfold-coordinator check --config {settings}").returncode == 0
    words = head.words(f"wattfold-coordinator --config {settings}")
    queue = f"wattfold --coordinator unix:{tmp_path}/c.sock queue"
    with service(words, head.environment):
        wait_until("the coordinator answers", lambda: head.run(queue).returncode == 0)
    head.refuses("wattfold compare --model lublin --jobs 9 --nodes 4 --plot p.png", "simulator")


def test_the_simulator_is_complete(install: Install) -> None:
    simulator = install("simulator")
    machine = "--model lublin --jobs 20 --nodes 8 --idle 30 --budget 700W --cut-sizes"
    done = simulator.run(
        f"wattfold compare {machine} --plot p.png --policies easy,parm-wse --workers 1"
    )
    assert done.returncode == 0, done.stderr
    assert (simulator.home / "p.png").stat().st_size > 1000
    reference = f"wattfold simulate {machine} --policy parm-wse --solver glpk --workers 1"
    assert simulator.run(reference).returncode == 0
    simulator.refuses(f"{reference} --out runs --format parquet", "parquet")
    simulator.refuses("wattfold-agent check", "agent")

"""Configuration errors: each message names the place of the error."""

import os

import pytest

from wattfold.nodeagent.adapters.config import load
from wattfold.nodeagent.adapters.config_error import ConfigError

CPU = min(os.sched_getaffinity(0))


def load_text(tmp_path, text: str, *flags: str):
    path = tmp_path / "agent.toml"
    path.write_text(text)
    return load(["--config", str(path), *flags])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("node_id = 'a'\nflor_w = 3", r"agent.toml:2: flor_w is unknown"),
        ("base_power_w = -1", r"agent.toml:1: base_power_w = -1 W is outside 0..100000 W"),
        ("base_power_w = 'x'", r"must be a number"),
        ("node_id = 'a/b'", r"agent.toml:1: node_id = 'a/b'"),
        ("cpus = '0-'", r"cpus = '0-'"),
        ("cpus = '60000'", r"must be a subset of .*, the CPUs that this process may use"),
        ("listen = '0.0.0.0:7000'", r"needs token_file"),
        ("listen = 'unix:relative'", r"absolute path"),
        ("masks = 'magic'", r"one of auto, cgroup, affinity"),
        ("x = \ny = 1", r"line 1"),
        ("emulate = true\n[emulation]\nc = 30", r"package_min_w = 25 W must be above c = 30 W"),
        ("emulate = true\n[emulation]\ncpu_share = 2", r"agent.toml:3: cpu_share = 2 is outside"),
        (
            "package_min_w = 5\nemulate = true\n[emulation]\npackage_min_w = 5000",
            r"agent.toml:4: package_min_w = 5000 W is outside",
        ),
        ("emulate = true\n[emulation]\n'a' = -1", r"agent.toml:3: a = -1 is outside"),
        ("emulate = true\nemulation.cpu_share = 2", r"agent.toml:2: cpu_share = 2 is outside"),
        ("emulate = true\n\n[emulated]\nc = 1", r"agent.toml:3: emulated is unknown"),
        ("emulate = true\n[emulation]\nd = 1", r"agent.toml:3: d is unknown"),
        ("emulate = true\nfloor_w = 10", r"agent.toml:2: floor_w = 10 W is outside .* 25..95 W"),
        ("omp_shim = '/no/such.so'", r"not a file"),
        ("token_file = '/no/token'", r"cannot be read"),
        ("metrics_file = '/tmp/x.txt'", r"agent.toml:1: metrics_file = '/tmp/x.txt' must end in"),
        ("metrics_file = '/no/where/x.prom'", r"the folder /no/where does not exist"),
        ("metrics_interval_s = 0.5", r"metrics_interval_s = 0.5 s is outside 1..3600 s"),
    ],
)
def test_mistakes_are_refused_where_they_are(tmp_path, text, words):
    with pytest.raises(ConfigError, match=words):
        load_text(tmp_path, text)


def test_flags_override_the_file(tmp_path):
    text = f"node_id = 'a'\ncpus = '{CPU}'\nemulate = true\n[emulation]\ncpu_share = 0.5"
    config = load_text(tmp_path, text, "--node-id", "b", "--cpu-share", "0.25")
    assert config.node_id == "b"
    assert config.emulation is not None
    assert config.emulation.cpu_share == 0.25
    assert len(config.cpus) == 1
    assert config.powercap_root == config.run_dir / "powercap"


def test_a_token_others_can_read_is_refused(tmp_path):
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n")
    token.chmod(0o644)
    flags = ["--listen", "127.0.0.1:0", "--token-file", str(token)]
    with pytest.raises(ConfigError, match="read by others"):
        load(flags)
    token.chmod(0o600)
    assert load(flags).token == "0123456789abcdef"

"""The build files of container images name files, extras, commands and accounts that exist."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "packaging" / "containers"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ACCOUNTS = {"coordinator": "990:990", "agent": ""}


def instructions(part: str) -> list[tuple[str, str]]:
    """Return the instructions of a build file, with their continued lines joined."""
    text = (FOLDER / f"{part}.Containerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    joined = re.sub(r" \\\n\s*", " ", "\n".join(lines)).splitlines()
    pairs = [line.partition(" ") for line in joined]
    return [(word, rest) for word, _, rest in pairs]


def values(part: str, word: str) -> list[str]:
    return [rest for name, rest in instructions(part) if name == word]


@pytest.mark.parametrize("part", ACCOUNTS)
def test_every_instruction_is_known(part: str) -> None:
    known = {"ARG", "FROM", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT", "CMD"}
    assert {word for word, _ in instructions(part)} <= known


@pytest.mark.parametrize("part", ACCOUNTS)
def test_the_image_starts_a_command_of_the_package_with_a_packaged_configuration(part: str) -> None:
    [entry] = map(json.loads, values(part, "ENTRYPOINT"))
    [arguments] = map(json.loads, values(part, "CMD"))
    assert entry == [f"wattfold-{part}"]
    assert entry[0] in PROJECT["scripts"]
    unit = (ROOT / f"packaging/systemd/wattfold-{part}.service").read_text(encoding="utf-8")
    assert f"/opt/wattfold/bin/{entry[0]} {' '.join(arguments)}\n" in unit


@pytest.mark.parametrize("part", ACCOUNTS)
def test_extras_and_copied_files_exist(part: str) -> None:
    found = re.findall(r"\.whl\)\[([\w,]+)\]", " ".join(values(part, "RUN")))
    assert found
    assert set(found[0].split(",")) <= set(PROJECT["optional-dependencies"])
    for copied in values(part, "COPY"):
        if not copied.startswith("--from="):
            names = copied.split()[:-1]
            assert all(name.startswith("dist/") or (ROOT / name).is_file() for name in names)


@pytest.mark.parametrize(("part", "account"), ACCOUNTS.items())
def test_only_the_agent_runs_as_root(part: str, account: str) -> None:
    assert "".join(values(part, "USER")) == account
    if account:
        order = [word for word, _ in instructions(part)]
        assert "RUN" not in order[order.index("USER") :]


@pytest.mark.parametrize("part", ACCOUNTS)
def test_all_stages_have_the_same_python(part: str) -> None:
    assert len({one.removesuffix(" AS build") for one in values(part, "FROM")}) == 1
    assert len(set(values(part, "ARG"))) == 1

"""Packages under other licences are optional extras, and the tested versions are locked."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
LOCK = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
OTHER_TERMS = {"swiglpk": {"glpk", "coordinator", "simulator", "dev"}, "charm4py": {"charm", "dev"}}


def needed(extra: str) -> list[Requirement]:
    """Requirements of an extra, including the extras that it names."""
    found = []
    for requirement in map(Requirement, EXTRAS[extra]):
        if requirement.name == PROJECT["name"]:
            found += [one for name in requirement.extras for one in needed(name)]
        else:
            found.append(requirement)
    return found


@pytest.mark.parametrize(("package", "extras"), OTHER_TERMS.items())
def test_only_these_extras_install_a_package_under_other_terms(
    package: str, extras: set[str]
) -> None:
    assert {name for name in EXTRAS if package in [one.name for one in needed(name)]} == extras
    for page in ("README.md", "docs/status.md", "pyproject.toml"):
        assert package.removeprefix("swi") in (ROOT / page).read_text(encoding="utf-8").lower()


def test_charm4py_is_set_up_only_for_those_who_name_it() -> None:
    setup = (ROOT / "scripts/setup").read_text(encoding="utf-8")
    assert "\nextras='simulator,coordinator,agent'\n" in setup
    demo = (ROOT / "scripts/demo").read_text(encoding="utf-8")
    assert '*" --no-charm "*) scripts/setup run ;;' in demo


def test_the_tested_versions_are_locked_with_hashes() -> None:
    pinned = re.findall(r"^(\S+)==(\S+?)(?: ; .*)? \\\n((?:    --hash=.*\n)+)", LOCK, re.M)
    versions = {canonicalize_name(name): version for name, version, _ in pinned}
    assert len(pinned) == len(re.findall(r"^\S+==", LOCK, re.M)), "each has a hash"
    for requirement in [*map(Requirement, PROJECT["dependencies"]), *needed("dev")]:
        version = versions.get(canonicalize_name(requirement.name))
        assert version, f"scripts/lock has not been run: {requirement.name} is missing"
        assert requirement.specifier.contains(version), f"{requirement} is locked to {version}"
    assert "://" not in LOCK, "the lock names no host"

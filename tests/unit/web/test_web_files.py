"""Files of the page: all there, nothing from outside, third-party files unchanged."""

from __future__ import annotations

import hashlib
import importlib.resources
import re
import tomllib

import pytest

from wattfold.coordinator.cli.web.files import page_files

FILES = page_files()
OWN = sorted(name for name in FILES if not name.startswith("vendor/"))
VENDOR = importlib.resources.files("wattfold.coordinator.cli.web") / "static" / "vendor"
VERSIONS = tomllib.loads((VENDOR / "versions.toml").read_text())


def text(name: str) -> str:
    return FILES[name].data.decode("utf-8")


def test_every_third_party_file_is_recorded() -> None:
    assert set(VERSIONS) == {name[7:] for name in FILES if name.startswith("vendor/")}


@pytest.mark.parametrize("name", sorted(VERSIONS))
def test_a_third_party_file_is_unchanged_and_has_its_licence(name: str) -> None:
    known = VERSIONS[name]
    assert hashlib.sha256(FILES[f"vendor/{name}"].data).hexdigest() == known["sha256"]
    assert all((VENDOR / text).read_text().strip() for text in known["texts"])
    assert known["version"]


@pytest.mark.parametrize("name", OWN)
def test_references_exist_and_stay_inside(name: str) -> None:
    found = re.findall(r'(?:href|src)="([^"#$]+)"', text(name))
    found += re.findall(r'from "(?:\./|\.\./)([^"]+)"', text(name))
    for reference in found:
        assert any(known.endswith(reference) for known in FILES), reference
    outside = re.findall(r"https?://[^\"'\s)]+", text(name))
    assert set(outside) <= {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize("name", OWN)
def test_nothing_makes_markup_or_code_of_text(name: str) -> None:
    forbidden = r"innerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
    assert not re.search(forbidden, text(name))


def test_every_module_is_loaded_early() -> None:
    modules = {name for name in OWN if name.endswith(".js")}
    assert modules == set(re.findall(r'"(js/[a-z]+\.js)"', text("index.html")))

"""Files that the architecture document names exist, and links of documents are valid."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ARCHITECTURE = ROOT / "docs" / "architecture.md"
SOURCES = (
    ROOT,
    ROOT / "coordinator" / "src" / "wattfold" / "coordinator",
    ROOT / "coordinator" / "src" / "wattfold",
    ROOT / "nodeagent" / "src" / "wattfold" / "nodeagent",
)
FOLDERS = ("adapters", "cli", "core", "models", "policies", "service", "simulator", "solvers")
DOCUMENTS = sorted(
    path.relative_to(ROOT)
    for pattern in ("*.md", "docs/**/*.md", "*/README.md")
    for path in ROOT.glob(pattern)
    if "build" not in path.relative_to(ROOT).parts
)
LINES_MAX = 400
LINE_LENGTH_MAX = 120
_PATH = re.compile(rf"(?<![\w./-])(?:(?:{'|'.join(FOLDERS)})/[\w/]*\w(?:\.py)?|\w+\.py)(?!\w)")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.S | re.M)


def prose(path: Path) -> str:
    """Return the text of a document without its code blocks."""
    return _FENCE.sub("", path.read_text(encoding="utf-8"))


@cache
def anchors(path: Path) -> frozenset[str]:
    """Return the anchors of the headings of a document, as GitHub names them."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#+ +(.+?)\s*#*$", prose(path), re.M):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return frozenset(found)


def broken_links(path: Path) -> list[str]:
    """Return the relative links of a document that lead to no file or no heading."""
    broken = []
    for link in _LINK.findall(prose(path)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


def is_source(name: str) -> bool:
    """Whether a name is a file or a folder of the sources, with or without ``.py``."""
    return any((root / name).exists() or (root / f"{name}.py").exists() for root in SOURCES)


def test_every_path_of_the_architecture_exists() -> None:
    names = set(_PATH.findall(ARCHITECTURE.read_text(encoding="utf-8")))
    assert len(names) > 60
    assert [name for name in sorted(names) if not is_source(name)] == []


def test_the_architecture_stays_short() -> None:
    lines = ARCHITECTURE.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LINES_MAX
    assert [line for line in lines if len(line) > LINE_LENGTH_MAX] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_the_links_of_a_document_resolve(document: Path) -> None:
    assert broken_links(ROOT / document) == []


def test_broken_paths_links_and_anchors_are_found(tmp_path: Path) -> None:
    assert not is_source("core/no_such_module.py")
    page = tmp_path / "page.md"
    page.write_text(
        "# A `code` and a word\n## Twice\n## Twice\n"
        "[a](#a-code-and-a-word) [b](#twice-1) [c](page.md#twice) [d](https://example.org/x)\n"
        "[e](#twice-2) [f](no.md)\n",
        encoding="utf-8",
    )
    assert broken_links(page) == ["#twice-2", "no.md"]

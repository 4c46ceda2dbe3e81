"""The documentation site has every document, and its pages agree with the code."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
from unit.docs.test_architecture import broken_links

from wattfold.coordinator.policies import registry

ROOT = Path(__file__).parents[3]
GENERATOR = ROOT / "build" / "docs_site" / "env" / "bin" / "python"

needs_generator = pytest.mark.skipif(
    not GENERATOR.exists(), reason="Sphinx is not installed; scripts/docs_site installs it"
)


def script(name: str, patch: pytest.MonkeyPatch) -> ModuleType:
    patch.syspath_prepend(str(ROOT / "scripts" / "documents"))
    return importlib.import_module(name)


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return script("site_pages", monkeypatch)


@pytest.fixture
def source(pages: ModuleType, tmp_path: Path) -> Path:
    """The source tree of the site."""
    pages.write(tmp_path / "source")
    return tmp_path / "source"


def built(source: Path) -> subprocess.CompletedProcess[str]:
    """Build the site as `scripts/docs_site` does."""
    options = ["-q", "-W", "--keep-going", "-b", "html"]
    return subprocess.run(
        [GENERATOR, "-m", "sphinx", *options, source, source.parent / "html"],
        capture_output=True,
        text=True,
        check=False,
    )


def unlisted(source: Path, listed: list[str]) -> list[str]:
    """The pages that no list of a reader has, without the pages of a listed index."""
    found = {str(path.relative_to(source)) for path in source.rglob("*.md")} - {"index.md"}
    indexes = {str(Path(page).parent) for page in listed if page.startswith("docs/")} - {"docs"}
    below = ("docs/adr", "docs/policies")
    return sorted(
        page
        for page in found.difference(listed)
        if not (str(Path(page).parent) in below and str(Path(page).parent) in indexes)
    )


def test_every_page_is_in_the_navigation_once(pages: ModuleType, source: Path) -> None:
    listed = [page for reader in pages.readers() for page in reader["pages"]]
    assert [page for page, times in Counter(listed).items() if times > 1] == []
    assert [page for page in listed if not (source / page).is_file()] == []
    assert unlisted(source, listed) == []
    assert unlisted(source, [page for page in listed if page != "docs/lists.md"]) == [
        "docs/lists.md"
    ]


def test_the_readers_are_the_readers_of_the_documents(pages: ModuleType) -> None:
    titles = [reader["title"] for reader in pages.readers()]
    assert titles[1:5] == ["Administrator", "User", "Researcher", "Runtime developer"]


def test_the_links_of_every_page_resolve(source: Path) -> None:
    broken = {
        str(page.relative_to(source)): links
        for page in sorted(source.rglob("*.md"))
        if (links := broken_links(page))
    }
    assert broken == {}


def test_links_to_folders_lead_to_pages(source: Path) -> None:
    text = (source / "README.md").read_text(encoding="utf-8")
    assert "](docs/examples/index.md)" in text
    assert "img.shields.io" not in text


def test_documents_are_copied_unchanged(source: Path) -> None:
    page = "docs/training.md"
    assert (source / page).read_bytes() == (ROOT / page).read_bytes()


@pytest.mark.parametrize(
    "entry", list(registry.entries()), ids=lambda entry: entry.variant.simulator_name
)
def test_every_policy_has_a_page_with_its_picture(
    pages: ModuleType, entry: registry.RegisteredPolicy
) -> None:
    name = entry.variant.simulator_name
    text = pages.policy(entry)
    assert (pages.PICTURES / f"{name}.svg").is_file(), "run scripts/docs_site --pictures"
    assert f"(../images/policies/{name}.svg)" in text
    assert [
        setting.key
        for setting in entry.family.settings
        if f"| `{entry.family.name}.{setting.key}` |" not in text
    ] == []
    assert entry.family.citation[:-1] in text


def test_policies_of_papers_show_the_entry_and_the_evaluation(pages: ModuleType) -> None:
    names = pages.evaluations()
    assert len(names) == 12
    for name in names:
        entry = registry.find(name)
        assert entry is not None
        text = pages.policy(entry)
        assert f"(../{names[name]})" in text
        assert text.count("```bibtex\n@") == 1, name


def test_manual_pages_keep_their_sections_and_options(pages: ModuleType) -> None:
    for path in sorted((ROOT / "docs" / "man").glob("*.[18]")):
        text = path.read_text(encoding="utf-8")
        titles = [title.strip('"').capitalize() for title in re.findall(r"^\.SH (.+)$", text, re.M)]
        page = pages.manual(path)
        assert re.findall(r"^## (.+)$", page, re.M) == titles
    assert "--token-file FILE" in pages.manual(ROOT / "docs" / "man" / "wattfold.1")


def test_pictures_show_what_the_policies_do(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = script("policy_pictures", monkeypatch)
    for name, svg in pictures.drawn(["easy", "slowdown-driven", "edf"]).items():
        stored = (pictures.PICTURES / f"{name}.svg").read_text(encoding="utf-8")
        assert svg == stored, f"run scripts/docs_site --pictures for {name}"


def test_jobs_of_a_picture_are_in_order_of_submission(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = script("policy_pictures", monkeypatch)
    times = {"start_s": "7200", "end_s": "10800", "size_first": "4"}
    jobs = [
        {"job_id": "2", "submit_s": "3600", **times},
        {"job_id": "1", "submit_s": "0", **times},
    ]
    marks = pictures.job_marks(jobs, pictures.BATCH)
    waits = [mark for mark in marks if 'class="wait"' in mark]
    assert [re.findall(r"M([\d.]+) ", mark)[0] for mark in waits] == ["70.0", "87.8"]


@needs_generator
def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    shutil.copyfile(ROOT / "docs" / "site" / "conf.py", source / "conf.py")
    page = source / "index.md"
    page.write_text("# One\n\n[a](#one)\n", encoding="utf-8")
    result = built(source)
    assert (result.returncode, result.stderr) == (0, "")
    page.write_text("# One\n\n[a](no-such-page.md) [b](#no-such-heading)\n", encoding="utf-8")
    result = built(source)
    assert result.returncode != 0
    assert "no-such-page.md" in result.stderr
    assert "no-such-heading" in result.stderr


def test_pages_need_no_installed_project(tmp_path: Path) -> None:
    page = ROOT / "scripts" / "documents" / "site_pages.py"
    subprocess.run([sys.executable, page, tmp_path / "source"], check=True, cwd=tmp_path)
    assert (tmp_path / "source" / "conf.py").is_file()

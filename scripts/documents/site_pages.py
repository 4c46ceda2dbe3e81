"""Write the source tree of the documentation site: copies of the documents and generated pages.

    python scripts/documents/site_pages.py FOLDER

The tree has the layout of the checkout, so relative links work unchanged. Links to a folder become
links to the page of the folder, because a site has no listings. `docs/site/navigation.toml` has the
order of the pages. This script needs groff for the manual pages, and no generator of sites.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from generated import ROOT, registry, table

SITE = ROOT / "docs" / "site"
PICTURES = ROOT / "docs" / "images" / "policies"
FOLDER_PAGES = ("README.md", "index.md")
_FENCE = re.compile(r"(^(?:```|~~~).*?^(?:```|~~~)[^\S\n]*$)", re.S | re.M)
_LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
_BADGE = re.compile(r"^.*https://img\.shields\.io/.*\n", re.M)
_ENTRY = re.compile(r"^@\w+\{.*?^\}\n", re.S | re.M)


def readers() -> list[dict[str, Any]]:
    """Return the readers in order, each with the title and the pages for this reader."""
    text = (SITE / "navigation.toml").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = tomllib.loads(text)["reader"]
    return found


def documents() -> list[str]:
    """Return the documents of the checkout that belong to the site, relative to its root."""
    patterns = ("*.md", "*/README.md", "runtime_shims/*/README.md", "docs/*.md", "docs/adr/*.md")
    found = {path.relative_to(ROOT) for pattern in patterns for path in ROOT.glob(pattern)}
    # Tools write README files into folders of their own, such as .pytest_cache.
    return sorted(
        str(path) for path in found if path.parts[0] != "build" and path.parts[0][0] != "."
    )


# ---- generated pages -------------------------------------------------------------------------


def manual(path: Path) -> str:
    """Return a manual page as Markdown: its sections as headings, their text as `man` shows it."""
    shown = subprocess.run(
        ["groff", "-man", "-Tutf8", "-P-cbou", "-rLL=90n", "-rHY=0", str(path)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    _, *parts = re.split(r"^([A-Z][A-Z ]*)$", shown, flags=re.M)
    sections = [
        f"## {title.capitalize()}\n\n```text\n{textwrap.dedent(text).strip()}\n```\n"
        for title, text in zip(parts[::2], parts[1::2], strict=True)
    ]
    return f"# {path.stem}({path.suffix[1:]})\n\n" + "\n".join(sections)


def examples() -> str:
    """Return the page with the example configurations."""
    parts = ["# Example configurations\n"]
    for path in sorted((ROOT / "docs" / "examples").glob("*.toml")):
        text = path.read_text(encoding="utf-8").rstrip()
        parts.append(f"## {path.name}\n\n[Download]({path.name})\n\n```toml\n{text}\n```\n")
    return "\n".join(parts)


def words(text: str) -> str:
    """Return the words of a title or a citation, without punctuation and in lower case."""
    return " ".join(re.findall(r"\w+", re.sub(r"[{}]", "", text).lower()))


def bibliography() -> dict[str, str]:
    """Return the BibTeX entries of the papers by the words of their titles."""
    text = (ROOT / "docs" / "papers.bib").read_text(encoding="utf-8")
    return {
        words(re.findall(r"^ +title += \{(.*)\},$", entry, re.M)[0]): entry
        for entry in _ENTRY.findall(text)
    }


def cited(entry: Any) -> list[str]:
    """Return the BibTeX entries for a policy: cited papers, and the paper of its evaluation."""
    links = evaluations()
    link = links.get(entry.variant.name)
    families = [entry.family] + [
        other.family
        for other in registry().entries()
        if link and links.get(other.variant.name) == link
    ]
    citations = [words(family.citation) for family in families]
    return [
        text
        for title, text in bibliography().items()
        if any(title in citation for citation in citations)
    ]


def papers() -> str:
    """Return the page with the BibTeX entries of all papers."""
    entries = "\n".join(bibliography().values())
    return (
        "# BibTeX entries\n\nWattfold implements the policies of these papers. "
        "[Status](status.md#papers) lists the policies and the evaluation of each paper.\n\n"
        f"[Download](papers.bib)\n\n```bibtex\n{entries}```\n"
    )


def evaluations() -> dict[str, str]:
    """Return the link to the evaluation of each policy with one, from the table of the papers."""
    text = (ROOT / "docs" / "status.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .* \| (.*) \| \[.*\]\((reproducing-[\w-]+\.md)\) \|$", text, re.M)
    return {name: link for names, link in rows for name in re.findall(r"`([\w-]+)`", names)}


def sentence(text: str) -> str:
    """Return the text with a capital letter and a full stop."""
    return f"{text[0].upper()}{text[1:]}" + ("" if text.endswith(".") else ".")


def facts(entry: Any) -> Iterator[tuple[str, str]]:
    """Yield the properties of a policy, as rows of a table."""
    family, variant = entry.family, entry.variant
    names = " and ".join(f"`{name}`" for name in variant.names)
    yield "names", names
    yield "family", f"`{family.name}`: {family.title}"
    yield "for", family.audience
    yield "runs in", "simulator" if variant.service is None else "service, simulator"
    yield "every job starts eventually", "yes" if variant.starves_nobody else "not guaranteed"
    yield "looks ahead to announced budgets", "yes" if variant.looks_ahead else "no"
    yield "if a round fails or is late", family.fallback
    if variant.by_name:
        yield "on named nodes", variant.by_name


def settings(family: Any) -> str:
    """Return the table of the settings of a family."""
    rows: list[tuple[str, ...]] = [
        (
            f"`{family.name}.{one.key}`",
            f"{one.default if isinstance(one.default, str) else format(one.default, 'g')}"
            f"{f' {one.unit}' if one.unit else ''}",
            one.range_text,
            ", ".join(place.value for place in one.places),
            one.help,
        )
        for one in family.settings
    ]
    head = ("setting", "default", "range", "where", "description")
    return table(head, rows) if rows else "This policy has no settings.\n"


def policy(entry: Any) -> str:
    """Return the page of a policy."""
    family, variant = entry.family, entry.variant
    name = variant.simulator_name
    parts = [
        f"# {name}\n",
        f"{sentence(variant.title)}\n",
        table(("property", "value"), [*facts(entry)]),
    ]
    if (PICTURES / f"{name}.svg").exists():
        parts.append(
            f"## Picture\n\n![Jobs and power under {name}](../images/policies/{name}.svg)\n\n"
            "Each row is a job in order of submission. A thin line shows its wait. A bar shows its "
            "run and is darker if the job starts on more nodes or GPUs. A short vertical line is "
            "a due date. The graph below shows the committed power and the budget. All policies "
            "have the same 40 generated jobs, 16 nodes and budget. Policies for training jobs "
            "have 24 of them on four nodes with unlike GPUs instead.\n"
        )
    parts.append(f"## Settings\n\n{settings(family)}")
    link = evaluations().get(variant.name)
    source = f"## Source\n\n{sentence(family.citation)}\n"
    if link:
        source += f"\n[The evaluation of the paper](../{link}) is repeated with Wattfold.\n"
    source += "".join(f"\n```bibtex\n{text}```\n" for text in cited(entry))
    return "\n".join([*parts, source])


def policy_pages() -> dict[str, str]:
    """Return the pages of all policies and their index, by path."""
    entries = list(registry().entries())
    pages = {f"docs/policies/{one.variant.simulator_name}.md": policy(one) for one in entries}
    rows: list[tuple[str, ...]] = [
        (f"[{one.variant.simulator_name}]({one.variant.simulator_name}.md)", one.variant.title)
        for one in entries
    ]
    links = [one.variant.simulator_name for one in entries]
    text = (
        "# Policies\n\n`wattfold policies NAME` shows the same properties and settings. "
        "[Simulation](../simulation.md#policies) explains how to choose them.\n\n"
    )
    pages["docs/policies/index.md"] = text + table(("policy", "description"), rows) + tree(links)
    return pages


def tree(pages: list[str], caption: str = "") -> str:
    """Return the navigation to these pages. Without a caption, only the sidebar shows it."""
    options = f":caption: {caption}\n" if caption else ":hidden:\n"
    return f"\n```{{toctree}}\n{options}:maxdepth: 1\n\n" + "\n".join(pages) + "\n```\n"


def front() -> str:
    """Return the front page."""
    text = (
        "# Wattfold\n\nWattfold schedules HPC jobs under a fixed power budget and resizes them "
        "while they run. Choose the pages for your work.\n"
    )
    trees = (tree([f"/{page}" for page in one["pages"]], one["title"]) for one in readers())
    return text + "".join(trees)


def generated_pages() -> dict[str, str]:
    """Return all pages that are not documents of the checkout, by path."""
    manuals = sorted((ROOT / "docs" / "man").glob("*.[18]"))
    return {
        "index.md": front(),
        "docs/examples/index.md": examples(),
        "docs/papers.md": papers(),
        **{f"docs/man/{path.name}.md": manual(path) for path in manuals},
        **policy_pages(),
    }


# ---- the tree --------------------------------------------------------------------------------


def folder_page(target: str, page: Path, pages: set[str]) -> str:
    """Return the target of a link, or the page of the folder if it leads to a folder."""
    if ":" in target or not (ROOT / page.parent / target).is_dir():
        return target
    for name in FOLDER_PAGES:
        path = (ROOT / page.parent / target / name).resolve()
        if str(path.relative_to(ROOT)) in pages:
            return f"{target.rstrip('/')}/{name}"
    return target


def linked_files(text: str, page: Path) -> Iterator[Path]:
    """Yield the files of the checkout that a page links to, relative to its root."""
    for _, target, _ in _LINK.findall(_FENCE.sub("", text)):
        path = (ROOT / page.parent / target).resolve()
        if ":" not in target and path.is_file() and path.suffix != ".md":
            yield path.relative_to(ROOT)


def site_text(text: str, page: Path, pages: set[str]) -> str:
    """Return the text of a page for the site, with links to pages instead of folders."""
    parts = _FENCE.split(_BADGE.sub("", text))
    parts[::2] = [
        _LINK.sub(lambda link: link[1] + folder_page(link[2], page, pages) + link[3], part)
        for part in parts[::2]
    ]
    return "".join(parts)


def write(folder: Path) -> None:
    """Write the source tree of the site into a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in documents()}
    decisions = sorted(Path(name).name for name in texts if name.startswith("docs/adr/0"))
    texts["docs/adr/README.md"] += tree(decisions)
    texts |= generated_pages()
    for name, text in texts.items():
        page = Path(name)
        path = folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(site_text(text, page, set(texts)), encoding="utf-8")
        for file in linked_files(text, page):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / file, folder / file)
    shutil.copyfile(SITE / "conf.py", folder / "conf.py")


if __name__ == "__main__":
    write(Path(sys.argv[1]))

"""Refuse sentences that readers have to read twice.

    python scripts/documents/prose.py            # what `scripts/check` runs
    python scripts/documents/prose.py FILE ...   # the findings of some files

The check reads what users read: the documents, the manual pages, the comments of the example
configurations, the help texts of the commands, and the messages of the programs. It leaves names,
comments and docstrings in the code alone. A finding names file, line, text and advice. No finding
is allowed, except for the decision records: there the limit is RECORDS_PER_1000 findings per 1,000
words. ``prose.toml`` has the words; the other rules are here. A line that contains
``prose: ignore`` is skipped.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORDS_MAX = 35
"""Words in a sentence."""
CLAUSES_MAX = 2
"""Relative pronouns in a sentence."""
MESSAGE_WORDS = 4
"""A string literal with at least this many words counts as a message."""
RECORDS_PER_1000 = 3.0
RECORDS = "docs/adr/"
SOURCES = ("coordinator/src", "nodeagent/src", "runtime_shims", "proto/src")
GENERATED = ("proto/gen/", "build/")

_RULES: dict[str, str] = tomllib.loads(
    Path(__file__).with_name("prose.toml").read_text(encoding="utf-8")
)["words"]
_WORDS = [(re.compile(rf"\b(?:{pattern})\b", re.I), advice) for pattern, advice in _RULES.items()]
_CLAUSE = re.compile(r"\b(?:that|which|who|whose|whom|what)\b", re.I)
_NO_CLAUSE = re.compile(r"\b(?:so|such|says?|means?|ensures?|checks?|after) that\b", re.I)
_FRAGMENT = re.compile(
    r"(?:Of (?!course\b|the \d|\d)|That of |Those (?:of|that|who|which|with|not)\b)"
)
_HEADLESS = re.compile(
    r"^(?:What|Which|Who|Whose|Whatever)\b(?! to\b)"
    r"|\b(?:of|by|for|with|from|in|on|into|over|against|but|as|is|are|to|under) what (?!to\b)\w+"
    r"|\bthe (?:first|last|next|others?|best|worst|rest|most) (?:that|which|who)\b",
    re.I,
)
_PRONOUN = re.compile(
    r"\bones\b|\b(?:and|or|but|as|than|of|for|to|from|by|in|is|with|not|if|when|where) one "
    r"(?:that|which|who|whose|is|was|has|had|may|can|with|without|from)\b",
    re.I,
)
_SENTENCE = re.compile(r"(?<=[.!?])[\"')\]*_]*\s+(?=[A-Z\"'(`*_])")
_CODE = re.compile(r"``.*?``|`[^`]*`|<[^>\s][^>]*>|https?://\S+")
_LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)]|#+|\|)\s")
_ROFF_BREAK = re.compile(r"[.'](?:SH|SS|TP|PP|P|IP|RS|RE|TH|nf|fi|EX|EE)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """Text without markup, and the line of the file on which it begins."""

    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A piece of text to rewrite."""

    path: str
    line: int
    text: str
    advice: str

    def __str__(self) -> str:
        return f'{self.path}:{self.line}: "{self.text}": {self.advice}'


def joined(lines: Sequence[tuple[int, str]]) -> Iterator[Paragraph]:
    """Paragraphs of numbered lines: split at empty lines, list items, headings and table cells."""
    block: list[tuple[int, str]] = []
    for number, line in [*lines, (0, "")]:
        item = _ITEM.match(line)
        if block and (item or not line.strip()):
            yield Paragraph(line=block[0][0], text=" ".join(text for _, text in block))
            block = []
        if item and line.lstrip().startswith("|"):
            cells = (cell.strip() for cell in line.split("|"))
            yield from (Paragraph(line=number, text=cell) for cell in cells if cell.strip("-: "))
        elif line.strip():
            block.append((number, line[item.end() :] if item else line.strip()))


def markdown(source: str) -> Iterator[Paragraph]:
    """The prose of a Markdown document, without blocks of code and comments."""
    source = re.sub(r"<!--.*?-->", lambda m: "\n" * m[0].count("\n"), source, flags=re.S)
    fenced, lines = False, []
    after_empty = True
    for number, line in enumerate(source.splitlines(), 1):
        fence = line.lstrip().startswith(("```", "~~~"))
        fenced ^= fence
        code = fence or fenced or (line.startswith("    ") and after_empty)
        after_empty = code or not line.strip()
        lines.append((number, "" if code else line))
    return joined(lines)


def manual(source: str) -> Iterator[Paragraph]:
    """The prose of a manual page in roff, without examples."""
    lines: list[tuple[int, str]] = []
    verbatim = False
    tag = False
    for number, line in enumerate(source.splitlines(), 1):
        verbatim = line[1:3] in ("nf", "EX") if line[1:3] in ("nf", "fi", "EX", "EE") else verbatim
        if _ROFF_BREAK.match(line) or verbatim or line.startswith('.\\"') or tag or not line:
            lines.append((number, ""))
            tag = line.startswith(".TP")
            continue
        name, _, rest = line.partition(" ")
        if name in (".B", ".I"):
            line = f"`{rest}`"
        elif name in (".BR", ".IR", ".RB", ".RI", ".BI", ".IB"):
            line = "`" + "".join(rest.replace('\\"', "").replace('"', "").split(" ")) + "`"
        for roff, plain in ((r"\-", "-"), (r"\(dq", '"'), (r"\&", ""), (r"\e", "\\")):
            line = line.replace(roff, plain)
        lines.append((number, re.sub(r"\\f[BIRP]", "", line)))
    return joined(lines)


def configuration(source: str) -> Iterator[Paragraph]:
    """The comments of an example configuration: blocks of them, and one behind each setting."""
    lines: list[tuple[int, str]] = []
    for number, line in enumerate(source.splitlines(), 1):
        text = line.removeprefix("# ") if line.startswith("#") else line
        if re.match(r"\[+\w|[\w-]+ *= ", text) or not line.startswith("#"):
            lines += [(number, ""), (number, text.partition("  # ")[2]), (number, "")]
        else:
            lines.append((number, text.lstrip("# ")))
    return joined(lines)


def program(source: str) -> Iterator[Paragraph]:
    """The messages and help texts of a Python module."""
    tree = ast.parse(source)
    skipped: set[ast.AST] = set()
    helps: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            skipped.update(node.values)
        elif isinstance(node, ast.keyword) and node.arg in ("help", "description", "epilog"):
            helps.add(node.value)
        elif isinstance(node, ast.FunctionDef) and any(map(_makes_command, node.decorator_list)):
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                text = str(first.value.value).replace("\b", "")
                yield from joined([*enumerate(text.split("\n"), first.lineno)])
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and node not in skipped:
            text = _literal(node)
            if text and (node in helps or _is_message(text)):
                yield Paragraph(line=node.lineno, text=" ".join(text.split()))


def _makes_command(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).rpartition(".")[2] in ("command", "group", "session_command")


def _literal(node: ast.Constant | ast.JoinedStr) -> str:
    """The text of a literal with X for every value in it; empty for numbers and bytes."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    parts = (part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
    return "".join(map(str, parts))


def _is_message(text: str) -> bool:
    """Whether a literal is a sentence for people: words, not code, SQL or markup."""
    words = re.findall(r"(?:^|\s)[A-Za-z]{2,}", text)
    plain = sum(c.isalnum() or c in " .,;:'-`()" for c in text)
    code = re.search(r"\b(?:SELECT|INSERT|CREATE|PRAGMA|import|def|return)\b|\w=\w|</|[{}\\]", text)
    return len(words) >= MESSAGE_WORDS and plain > 0.88 * len(text) and not code


def findings(path: str, paragraph: Paragraph) -> Iterator[Finding]:
    """All findings in a paragraph."""
    shown = _LINK.sub(lambda match: match[1], paragraph.text)
    text = _CODE.sub("X", shown)

    def finding(found: str, advice: str) -> Finding:
        return Finding(path=path, line=paragraph.line, text=found[:70], advice=advice)

    for pattern, advice in _WORDS:
        yield from (finding(match[0], advice) for match in pattern.finditer(text))
    if match := _PRONOUN.search(text):
        yield finding(text[match.start() :], "repeat the noun")
    for raw in _SENTENCE.split(text):
        sentence = raw.strip(' *_"')
        words = len(re.findall(r"[A-Za-z][\w'-]*", sentence))
        if words < 3 or sentence.endswith("?"):
            continue
        if _FRAGMENT.match(sentence):
            yield finding(sentence, "begin with the noun that the sentence is about")
        if match := _HEADLESS.search(sentence):
            yield finding(sentence[match.start() :], "name the thing or the actor")
        if words > WORDS_MAX:
            yield finding(sentence, f"{words} words: split the sentence")
        if len(_CLAUSE.findall(_NO_CLAUSE.sub("", sentence))) > CLAUSES_MAX:
            yield finding(sentence, "too many relative clauses: split the sentence")


def paragraphs(path: str, source: str) -> Iterator[Paragraph]:
    """The prose of a file, by the kind of the file."""
    kinds = {".md": markdown, ".toml": configuration, ".py": program}
    return kinds.get(Path(path).suffix, manual)(source)


def checked_files() -> list[str]:
    """The files of this checkout whose prose is checked."""
    listed = subprocess.run(
        ["git", "ls-files", "--", "*.md", "docs/examples/*.toml", "docs/man/*", *SOURCES],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return [
        path
        for path in listed
        if path.endswith((".md", ".py")) or path.startswith(("docs/man/", "docs/examples/"))
        if not path.startswith(GENERATED)
    ]


def main(chosen: list[str]) -> int:
    """Print all findings; return 1 if there is one too many."""
    words, counts = {True: 0, False: 0}, {True: 0, False: 0}
    for path in chosen or checked_files():
        source = (ROOT / path).read_text(encoding="utf-8")
        lines = ["", *source.splitlines()]
        record = path.startswith(RECORDS)
        for paragraph in paragraphs(path, source):
            words[record] += len(paragraph.text.split())
            if "prose: ignore" in lines[min(paragraph.line, len(lines) - 1)]:
                continue
            for found in findings(path, paragraph):
                counts[record] += 1
                print(found)
    rate = 1000 * counts[True] / max(words[True], 1)
    print(
        f"prose: {counts[False]} findings in {words[False]} words (0 allowed); decision records: "
        f"{rate:.1f} findings per 1,000 words ({RECORDS_PER_1000:.0f} allowed)"
    )
    return int(counts[False] > 0 or rate > RECORDS_PER_1000)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

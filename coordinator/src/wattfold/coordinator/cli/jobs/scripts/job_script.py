"""Job scripts: the script of a command, and its directives such as `#WATTFOLD --cores 4`.

Reads the lines and splits them into words. `script_command` gives them their meaning.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from wattfold.coordinator.cli.shared.errors import BadRequestError

OWN, SLURM = "#WATTFOLD", "#SBATCH"
FOREIGN = ("#PBS", "#BSUB", "#FLUX:", "#flux:", "#OAR")
FILE_BYTES_MAX = 1 << 20
"""Directives are searched in this part of a file."""
STDIN_BYTES_MAX = 1 << 18
"""Agents accept 512 KiB of command and environment, and the script is a part of these."""
_WORD = re.compile(r"""(?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""")
_SHELLS = frozenset({"sh", "bash", "dash", "ksh", "zsh"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Directive:
    """The words of one directive, and the number of its line."""

    line: int
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Directives:
    """The directives of a script by their sign, in the order of the lines."""

    own: tuple[Directive, ...] = ()
    slurm: tuple[Directive, ...] = ()
    foreign: tuple[Directive, ...] = ()
    """Directives of other schedulers. Their only word is their sign."""
    late: tuple[int, ...] = ()
    """Lines of `#SBATCH` after the first command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script with its place in the command; ``path`` is None for standard input."""

    name: str
    text: str
    position: int = 0
    path: Path | None = None

    @property
    def interpreter(self) -> tuple[str, ...]:
        """Words of its first line, as the kernel splits them: a program, and all the rest."""
        return tuple(self.text.partition("\n")[0][2:].split(maxsplit=1))

    @property
    def is_started_by_name(self) -> bool:
        """Whether its interpreter must be started with its path: its file is not executable."""
        return self.path is not None and self.position == 0 and not os.access(self.path, os.X_OK)


def parse_directives(text: str, name: str) -> Directives:
    """Return the directives before the first command of a script.

    Raises BadRequestError with the name of the script and the line.
    """
    found: dict[str, list[Directive]] = {OWN: [], SLURM: [], "": []}
    late: list[int] = []
    started = False
    for number, line in enumerate(text.split("\n"), start=1):
        sign = _sign(line)
        if not sign:
            started = started or (bool(line.strip()) and not line.lstrip().startswith("#"))
        elif not started:
            known = sign in found
            words = _words(line[len(sign) :], f"{name}:{number}") if known else (sign,)
            found[sign if known else ""].append(Directive(line=number, words=words))
        elif sign == OWN:
            raise BadRequestError(
                f"{name}:{number}: {OWN} after the first command of the script; move it up"
            )
        elif sign == SLURM:
            late.append(number)
    return Directives(
        own=tuple(found[OWN]),
        slurm=tuple(found[SLURM]),
        foreign=tuple(found[""]),
        late=tuple(late),
    )


def _sign(line: str) -> str:
    """Return the sign with which a directive begins; empty for other lines."""
    for sign in (OWN, SLURM, *FOREIGN):
        if line.startswith(sign) and line[len(sign) : len(sign) + 1] in ("", " ", "\t", "\r", "-"):
            return sign
    return ""


def _words(text: str, where: str) -> tuple[str, ...]:
    """Split as a shell does, without a comment at the end. `shlex` alone cuts words such as a#b."""
    for word in _WORD.finditer(text):
        if word[0].startswith("#"):
            text = text[: word.start()]
            break
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise BadRequestError(f"{where}: {str(error).lower()}; close the quotation") from None


def script_of(argv: Sequence[str], cwd: Path) -> Script | None:
    """Return the script of a command: its program, or the first argument of an interpreter."""
    for position, path in _candidates(argv, cwd):
        text = _text_of(path)
        if text is None:
            continue
        script = Script(name=argv[position], text=text, position=position, path=path)
        if position == 0 or _interprets(argv[0], script):
            return script
    return None


def _candidates(argv: Sequence[str], cwd: Path) -> Iterator[tuple[int, Path]]:
    program = argv[0]
    found = None if os.sep in program else shutil.which(program)
    yield 0, Path(found) if found else cwd / program
    if len(argv) > 1:
        yield 1, cwd / argv[1]


def _interprets(program: str, script: Script) -> bool:
    base = os.path.basename(program)
    return base in _SHELLS or base in map(os.path.basename, " ".join(script.interpreter).split())


def _text_of(path: Path) -> str | None:
    """Return the text of a script, None for other files."""
    try:
        # Reading from a pipe or a terminal would wait.
        if not path.is_file():
            return None
        with path.open("rb") as file:
            if file.read(2) != b"#!":
                return None
            return "#!" + file.read(FILE_BYTES_MAX).decode(errors="surrogateescape")
    except (OSError, ValueError):
        return None


def script_from(stream: BinaryIO) -> Script:
    """Read a script from standard input. Raises BadRequestError if no job can run it."""
    data = stream.read(STDIN_BYTES_MAX + 1)
    if len(data) > STDIN_BYTES_MAX:
        raise BadRequestError(
            f"the script on standard input has more than {STDIN_BYTES_MAX >> 10} KiB; submit it "
            "as a file"
        )
    if not data:
        raise BadRequestError(
            "no command, and standard input is empty; give a command, or a script on standard input"
        )
    wrong = ""
    if not data.startswith(b"#!") or not data.partition(b"\n")[0][2:].strip():
        wrong = "its first line must name the interpreter, such as #!/bin/bash"
    elif b"\0" in data:
        wrong = "it contains a NUL byte; submit a program as a file"
    elif b"\r\n" in data:
        wrong = "its lines end in CR LF; remove the CR characters"
    if wrong:
        raise BadRequestError(f"cannot run the script on standard input: {wrong}")
    return Script(name="standard input", text=data.decode(errors="surrogateescape"))

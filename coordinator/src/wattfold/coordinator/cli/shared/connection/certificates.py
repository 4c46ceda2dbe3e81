"""Certificates as read from a profile or a file, and as text for people.

A certificate states how a program may be resized, with the SHA-256 sum of its file and the
evidence. `certify` writes it; `submit` and `profiles` read it. This module starts no program.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattfold.contract.ids import valid_name
from wattfold.contract.local_time import moment
from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.tables import FieldTable, field_table
from wattfold.v1 import common_pb2 as common
from wattfold.v1 import coordinator_pb2 as pb

MODES = {"mask": common.RESIZE_MODE_MASK, "team": common.RESIZE_MODE_TEAM}
SHORT_SUM = 12
FILE_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Certified:
    """A certificate of an application. ``evidence`` is the document as it was written."""

    app: str
    evidence: Mapping[str, Any]

    @property
    def mode(self) -> str:
        """Mode of the certificate: `team` or `mask`."""
        return str(self.evidence["mode"])

    @property
    def fit(self) -> bool:
        """Whether its team may change while it runs."""
        return self.mode == "team"

    @property
    def reason(self) -> str:
        """Why it is not fit; empty if it is fit."""
        # It may quote the program, including terminal codes.
        return printable(self.evidence.get("reason", ""))

    @property
    def sha256(self) -> str:
        """SHA-256 sum of the file of the program, or empty if it is unknown."""
        return printable(self.evidence.get("sha256", ""))

    def number(self, name: str) -> int:
        """Return a count from the evidence, 0 if it is missing."""
        value = self.evidence.get(name, 0)
        return value if isinstance(value, int) else 0

    def profile(self) -> pb.Profile:
        """Return the profile that a coordinator stores."""
        text = json.dumps(dict(self.evidence), ensure_ascii=False, allow_nan=False)
        return pb.Profile(app=self.app, mode=MODES[self.mode], certificate=text)


def of_profile(profile: pb.Profile) -> Certified | None:
    """Return the certificate in a profile, None without a readable certificate."""
    try:
        return _checked(profile.app, json.loads(profile.certificate or "null"))
    except ValueError:
        return None


def read_file(path: Path, app: str = "") -> Certified:
    """Read a file of `certify --output`; ``app`` replaces its name.

    Raises BadRequestError.
    """
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise BadRequestError(
                f"{path} is not a certificate: it is larger than {FILE_BYTES_MAX} bytes"
            )
        document = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
        if not isinstance(document, dict):
            raise ValueError("it is not a JSON object")
        return _checked(app or document.get("app", ""), document.get("certificate"))
    except OSError as error:
        raise BadRequestError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise BadRequestError(
            f"{path} is not a certificate of `wattfold certify`: {error}"
        ) from error


def write_file(path: Path, certified: Certified) -> None:
    """Write a file for `read_file`. Raises OSError."""
    document = {"app": certified.app, "certificate": dict(certified.evidence)}
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _checked(app: object, evidence: object) -> Certified:
    if not isinstance(app, str) or not valid_name(app):
        raise ValueError(f"{app!r} is not a valid name of an application")
    if not isinstance(evidence, dict) or evidence.get("mode") not in MODES:
        raise ValueError("it has no mode")
    return Certified(app=app, evidence=evidence)


def file_sum(path: Path) -> str:
    """Return the SHA-256 sum of a file. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def printable(value: object) -> str:
    """Return one line of text without terminal control codes."""
    return "".join(c if c.isprintable() else " " for c in str(value))


def verdict(certified: Certified) -> str:
    """Return the verdict in one line for people."""
    if certified.fit:
        return f"fit for team mode ({certified.number('acknowledged')} team changes tested)"
    return f"not fit for team mode: {certified.reason}"


def evidence_sheet(certified: Certified) -> FieldTable:
    """Return the evidence as a table."""
    told = certified.evidence
    return field_table(
        [
            ("application", certified.app),
            ("verdict", verdict(certified)),
            ("program", printable(told.get("program", "")) or f.NONE),
            ("SHA-256", certified.sha256 or f.NONE),
            ("arguments", " ".join(_words(told.get("argv"))[1:]) or f.NONE),
            ("runtime", printable(told.get("runtime", "")) or f.NONE),
            ("threads", str(certified.number("threads"))),
            (
                "runs",
                f"{certified.number('static_runs')} without resizes, "
                f"{certified.number('resized_runs')} with resizes",
            ),
            (
                "changes",
                f"{certified.number('masks')} sent, {certified.number('acknowledged')} "
                f"acknowledged, in {certified.number('regions')} parallel regions",
            ),
            ("team sizes", ", ".join(_words(told.get("sizes"))) or f.NONE),
            ("compared", ", ".join(_words(told.get("compared"))) or f.NONE),
            ("comparison", printable(told.get("comparison", "")) or f.NONE),
            ("seed", str(certified.number("seed"))),
            ("date", _when(told.get("made_at_s"))),
        ]
    )


def _words(value: object) -> list[str]:
    return [printable(item) for item in value] if isinstance(value, list | tuple) else []


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is not a number")


def _when(time_s: object) -> str:
    if not isinstance(time_s, int | float) or not 0 < time_s < 1e11:
        return f.NONE
    return moment(time_s, "minutes")

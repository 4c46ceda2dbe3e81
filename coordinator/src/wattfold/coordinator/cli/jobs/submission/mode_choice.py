"""Choice of the resize mode of a job by the certificate of its program.

It applies if the user does not choose the mode. A certificate counts only for the file that it was
made for, because another build may size its arrays differently. Otherwise the default stays, and
the answer gives the reason.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wattfold.contract.os_text import shown_text
from wattfold.coordinator.cli.jobs.submission import job_request
from wattfold.v1 import common_pb2 as common
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from wattfold.coordinator.cli.shared.connection import certificates
    from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient

REASON_MAX = 120
SOURCE_MAX = 400
"""Maximum length that a coordinator accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeChoice:
    """A mode and its source. ``warning``: why a certificate for team mode was not used."""

    mode: common.ResizeMode
    source: str
    warning: str = ""


def choose_mode(word: str | None, spec: pb.JobSpec, client: CoordinatorClient) -> ModeChoice:
    """Return the mode of a job: the requested mode, its certificate's, or the default of its kind.

    It asks the coordinator only if a certificate can count.
    """
    from wattfold.coordinator.cli.shared.connection import certificates

    mode = job_request.mode_of(word, spec.kind)
    if word not in (None, job_request.CORES):
        return ModeChoice(mode=mode, source="requested")
    if spec.kind not in job_request.RESIZED_KINDS:
        return ModeChoice(mode=mode, source="default for jobs that keep their size")
    app = spec.app or job_request.program_name(spec.argv[0])
    found = [certificates.of_profile(p) for p in client.list_profiles(app).profiles] if app else []
    certified = next((one for one in found if one is not None), None)
    if certified is None:
        return ModeChoice(mode=mode, source="default, because the application is not certified")
    return _by_certificate(certified, spec, mode)


def _by_certificate(
    certified: certificates.Certified, spec: pb.JobSpec, default: common.ResizeMode
) -> ModeChoice:
    from wattfold.coordinator.cli.shared.connection import certificates

    if not certified.fit:
        source = f"default, because application {certified.app!r} is not fit for team mode: "
        return ModeChoice(mode=default, source=source + certified.reason[:REASON_MAX])
    program = program_file(spec)
    this = ""
    if program is not None:
        try:
            this = certificates.file_sum(program)
        except OSError:
            program = None
    if program is not None and this == certified.sha256:
        short = this[: certificates.SHORT_SUM]
        return ModeChoice(
            mode=common.RESIZE_MODE_TEAM,
            source=f"certificate of application {certified.app!r} for this program "
            f"(SHA-256 {short}..., {certified.number('acknowledged')} changes tested, "
            f"up to {certified.number('threads')} threads)",
        )
    why = (
        f"the program {shown_text(spec.argv[0])!r} cannot be read on this machine"
        if program is None
        else f"it belongs to another build (SHA-256 {certified.sha256[:12] or 'unknown'}..., "
        f"{program} has {this[:12]}...)"
    )
    text = f"the certificate of application {certified.app!r} does not apply: "
    text += certificates.printable(why)
    return ModeChoice(mode=default, source=f"default; {text}"[:SOURCE_MAX], warning=text)


def program_file(spec: pb.JobSpec) -> Path | None:
    """Return the file of a job's program in its directory and PATH, None if it is not here."""
    command = job_request.local_command(spec)
    name = command.argv[0]
    if os.sep in name:
        path = command.cwd / name
        return path if path.is_file() else None
    found = shutil.which(name, path=command.env.get("PATH", os.defpath))
    return Path(found) if found else None

"""Home of a state folder: the machine and the path where a coordinator last used it.

For its agents, a copy of the folder is the same coordinator, so two copies would hand out one
budget twice. The journal remembers its home. A start elsewhere needs an operator's confirmation.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wattfold.coordinator.adapters.journal.journal import Journal

MACHINE_ID = Path("/etc/machine-id")
_MACHINE, _PATH = "home_machine", "home_path"


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """A machine and a path without links. An empty machine has no identity (a container)."""

    machine: str
    path: str


def here(folder: Path, machine_id: Path = MACHINE_ID) -> Home:
    """Return the home of a folder on this machine."""
    try:
        machine = machine_id.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        machine = ""
    return Home(machine=machine, path=str(folder.resolve()))


def home_of(journal: Journal) -> Home | None:
    """Return the last home of a journal; None = unused, or last used by an earlier version."""
    path = journal.get_meta(_PATH)
    if path is None:
        return None
    return Home(machine=journal.get_meta(_MACHINE) or "", path=path)


def settle(journal: Journal, home: Home) -> None:
    """Store the home of a journal from now on. Raises JournalError."""
    if home_of(journal) != home:
        journal.put_meta(_MACHINE, home.machine)
        journal.put_meta(_PATH, home.path)


def strange(journal: Journal, home: Home) -> str:
    """Return why a journal does not belong here; empty if it does."""
    known = home_of(journal)
    if known is None:
        return ""
    if known.path != home.path:
        return f"state folder {home.path} was used last as {known.path}"
    if known.machine and home.machine and known.machine != home.machine:
        return (
            f"state folder {home.path} was used last on the machine with machine-id "
            f"{known.machine}, and this one has {home.machine}"
        )
    return ""

"""Finds the GPUs of this machine: those of NVIDIA by NVML, those of AMD and Intel by sysfs."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.gpu_hwmon import HwmonGpus
from wattfold.nodeagent.adapters.hsmp import JoinedFiles
from wattfold.nodeagent.adapters.nvml import Library, NvmlFiles, open_nvml
from wattfold.nodeagent.adapters.powercap_files import ZoneFiles
from wattfold.nodeagent.adapters.timed_files import TimedFiles
from wattfold.nodeagent.core.gpu_findings import GpusFacts
from wattfold.nodeagent.core.gpus import NodeGpu

_VENDOR, _DISPLAY_CLASS = "0x10de", "0x03"
_OPEN_S = 30.0
"""Loading the driver of a node with many GPUs takes seconds; for ever, if one of them is sick."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """The GPUs of this machine. ``files`` is None where NVML reaches none, ``facts`` say why."""

    files: NvmlFiles | None
    others: HwmonGpus | None = None
    facts: GpusFacts
    timed: tuple[TimedFiles, ...] = ()

    def in_threads(self) -> Gpus:
        """The same, but that no device keeps the caller for long."""
        timed = tuple(TimedFiles(source) for source in self._sources())
        return Gpus(files=self.files, others=self.others, facts=self.facts, timed=timed)

    def joined_to(self, files: ZoneFiles) -> ZoneFiles:
        """Zones with those of the GPUs."""
        sources: Sequence[ZoneFiles] = self.timed or self._sources()
        return JoinedFiles([files, *sources]) if sources else files

    def gpus(self) -> tuple[NodeGpu, ...]:
        """The GPUs that jobs may have."""
        return tuple(gpu for source in self._sources() for gpu in source.gpus())

    def close(self) -> None:
        """Lets the devices go."""
        for timed in self.timed:
            timed.close()
        for source in self._sources():
            source.close()

    def _sources(self) -> list[NvmlFiles | HwmonGpus]:
        return [source for source in (self.files, self.others) if source]


def find_gpus(
    host: Path = Path("/"),
    library: Library | None = None,
    *,
    privileged: bool | None = None,
    open_s: float = _OPEN_S,
) -> Gpus:
    """Opens NVML and looks at sysfs. ``host``: the root of the file system.

    ``library``: default is pynvml; ``privileged``: whether limits may be set by it, default is
    whether this account is root; ``open_s``: for how long it may take.
    """
    pci = _pci_count(host)
    files, why = None, ""
    try:
        files = _within(open_s, lambda: open_nvml(library, privileged=privileged))
    except ImportError:
        why = "the package nvidia-ml-py is not installed"
    except OSError as error:
        why = error.strerror or f"the library of the driver cannot be loaded: {error}"
    if why and pci:
        logs.warning("gpus_unavailable", gpus=pci, why=why)
    others = HwmonGpus(host / "sys")
    facts = GpusFacts(
        on_bus=pci,
        why=why,
        gpus=(*(files.facts() if files else ()), *others.facts()),
        unopened=tuple((files.unopened if files else {}).items()),
    )
    return Gpus(files=files, others=others or None, facts=facts)


def _within(seconds: float, what: Callable[[], NvmlFiles]) -> NvmlFiles:
    """What a call gives that may never end. Raises what it raises, or TimeoutError."""
    outcome: list[NvmlFiles | Exception] = []

    def run() -> None:
        try:
            outcome.append(what())
        except Exception as error:  # noqa: BLE001 - it is raised where it was asked for
            outcome.append(error)

    thread = threading.Thread(target=run, name="open-gpus", daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise TimeoutError(errno.ETIMEDOUT, f"the driver has not answered for {seconds:g} s")
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


def _pci_count(host: Path) -> int:
    """Display controllers of NVIDIA on the PCI bus: what should be there."""
    found = 0
    for folder in (host / "sys/bus/pci/devices").glob("*"):
        try:
            vendor = (folder / "vendor").read_text(encoding="ascii").strip()
            display = (folder / "class").read_text(encoding="ascii").startswith(_DISPLAY_CLASS)
        except OSError:
            continue
        found += vendor == _VENDOR and display
    return found

"""Search for the GPUs of this machine: NVIDIA by NVML, AMD and Intel by sysfs."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.devices.gpu_hwmon import HwmonGpus
from wattfold.nodeagent.adapters.devices.hsmp import JoinedFiles
from wattfold.nodeagent.adapters.devices.nvml import Library, NvmlFiles, open_nvml
from wattfold.nodeagent.adapters.devices.powercap_files import ZoneFiles
from wattfold.nodeagent.adapters.devices.timed_files import TimedFiles
from wattfold.nodeagent.core.gpu_findings import GpusFacts
from wattfold.nodeagent.core.gpus import NodeGpu

_VENDOR, _DISPLAY_CLASS = "0x10de", "0x03"
_OPEN_S = 30.0
"""Loading the driver of a node with many GPUs takes seconds; with a defective GPU it may hang."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """The GPUs of this machine. ``files`` is None if NVML finds none; ``facts`` has the reason."""

    files: NvmlFiles | None
    others: HwmonGpus | None = None
    facts: GpusFacts
    timed: tuple[TimedFiles, ...] = ()

    def in_threads(self) -> Gpus:
        """Return the same GPUs, accessed through threads so that no device blocks the caller."""
        timed = tuple(TimedFiles(source) for source in self._sources())
        return Gpus(files=self.files, others=self.others, facts=self.facts, timed=timed)

    def joined_to(self, files: ZoneFiles) -> ZoneFiles:
        """Return the zones joined with the GPU zones."""
        sources: Sequence[ZoneFiles] = self.timed or self._sources()
        return JoinedFiles([files, *sources]) if sources else files

    def gpus(self) -> tuple[NodeGpu, ...]:
        """Return the GPUs for jobs."""
        return tuple(gpu for source in self._sources() for gpu in source.gpus())

    def close(self) -> None:
        """Close the devices."""
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
    """Open NVML and search sysfs. ``host``: the root of the file system.

    ``library``: default is pynvml. ``privileged``: whether it may set limits; default: whether this
    account is root. ``open_s``: maximum time to open it.
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
        logs.warning("gpus_unavailable", gpus=pci, reason=why)
    others = HwmonGpus(host / "sys")
    facts = GpusFacts(
        on_bus=pci,
        why=why,
        gpus=(*(files.facts() if files else ()), *others.facts()),
        unopened=tuple((files.unopened if files else {}).items()),
    )
    return Gpus(files=files, others=others or None, facts=facts)


def any_gpus(host: Path = Path("/")) -> bool:
    """Whether GPUs can be expected here, by sysfs alone, without a driver call."""
    return bool(_pci_count(host) or HwmonGpus(host / "sys").facts())


def _within(seconds: float, what: Callable[[], NvmlFiles]) -> NvmlFiles:
    """Return the result of a call that may hang. Raises its error, or TimeoutError."""
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
    """Return the number of NVIDIA display controllers on the PCI bus."""
    found = 0
    for folder in (host / "sys/bus/pci/devices").glob("*"):
        try:
            vendor = (folder / "vendor").read_text(encoding="ascii").strip()
            display = (folder / "class").read_text(encoding="ascii").startswith(_DISPLAY_CLASS)
        except OSError:
            continue
        found += vendor == _VENDOR and display
    return found

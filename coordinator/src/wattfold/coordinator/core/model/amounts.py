"""Amounts of a node or a job other than power: cores, memory and GPUs.

Code that counts one of the three has to count all. A `Share` names the cores and GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Numbers of cores and GPUs, bytes of memory. A difference may be below zero."""

    cores: int = 0
    memory_bytes: int = 0
    gpus: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(
            cores=self.cores + other.cores,
            memory_bytes=self.memory_bytes + other.memory_bytes,
            gpus=self.gpus + other.gpus,
        )

    def __sub__(self, other: Amounts) -> Amounts:
        return Amounts(
            cores=self.cores - other.cores,
            memory_bytes=self.memory_bytes - other.memory_bytes,
            gpus=self.gpus - other.gpus,
        )

    def __bool__(self) -> bool:
        return bool(self.cores or self.memory_bytes or self.gpus)

    def __le__(self, other: Amounts) -> bool:
        """Whether all amounts fit into ``other``. It is a partial order."""
        return (
            self.cores <= other.cores
            and self.memory_bytes <= other.memory_bytes
            and self.gpus <= other.gpus
        )


def memory_text(size_bytes: int) -> str:
    """Format a size, such as ``4 GiB``, ``2.5 GiB`` or ``300 MiB``."""
    if size_bytes >= GIB:
        return f"{size_bytes / GIB:.4g} GiB"
    return f"{size_bytes / (1 << 20):.4g} MiB"


def gpus_text(count: int) -> str:
    """Format a number of GPUs: ``1 GPU``, ``2 GPUs``."""
    return f"{count} GPU" if count == 1 else f"{count} GPUs"

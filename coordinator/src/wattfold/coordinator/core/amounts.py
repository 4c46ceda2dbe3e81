"""Amounts of what a node has and a job takes, beyond power: cores, memory, GPUs.

A closed type: whoever counts one of them counts all. Which cores and which GPUs is in a `Share`.
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
        """Whether all of it fits into another one. Two may each not fit into the other."""
        return (
            self.cores <= other.cores
            and self.memory_bytes <= other.memory_bytes
            and self.gpus <= other.gpus
        )


def memory_text(size_bytes: int) -> str:
    """For people: ``4 GiB``, ``2.5 GiB``, ``300 MiB``."""
    if size_bytes >= GIB:
        return f"{size_bytes / GIB:.4g} GiB"
    return f"{size_bytes / (1 << 20):.4g} MiB"


def gpus_text(count: int) -> str:
    """For people: ``1 GPU``, ``2 GPUs``."""
    return f"{count} GPU" if count == 1 else f"{count} GPUs"

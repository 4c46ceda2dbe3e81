"""`wattfold workload`: commands that describe, convert, generate, fetch and collect job logs.

These commands need no coordinator, except `collect`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import click

from wattfold.coordinator.cli.shared.lazy_group import LazyGroup


class _WorkloadGroup(LazyGroup):
    COMMANDS: ClassVar[Mapping[str, str]] = {
        "describe": "workloads.workload_describe:describe",
        "convert": "workloads.workload_convert:convert",
        "generate": "workloads.workload_generate:generate",
        "fetch": "workloads.workload_fetch:fetch",
        "collect": "workloads.workload_collect:collect",
    }


@click.group(cls=_WorkloadGroup)
def workload() -> None:
    """Describe, convert, generate, fetch and collect job logs."""

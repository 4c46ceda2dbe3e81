"""Options of a job under PARM, for users: costs, values and alternatives."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.job_units import size_text
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.policies.parm.options import JobOptions

_GREATEST_UW = 1 << 62
"""Replaces the level of GPUs without a level in comparisons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeOption:
    """A way to run a job: size, cap level, cost and value."""

    size: int
    cap_uw: int
    units: int
    power_uw: int
    speedup: float
    total_s: float
    dram_cap_uw: int = 0
    gpu_uw: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightedOptions:
    """The options of one job and its weight (Eq. 8)."""

    view: JobView
    table: JobOptions
    weight: float

    @property
    def options(self) -> tuple[SizeOption, ...]:
        """All options as single objects, for users."""
        table = self.table
        layout = table.layout
        columns = {
            "size": layout.size,
            "cap_uw": layout.cap_uw,
            "units": layout.units,
            "power_uw": layout.power_uw,
            "speedup": table.speedup,
            "total_s": table.total_s,
            "dram_cap_uw": layout.dram_cap_uw,
            "gpu_uw": layout.gpu_uw,
        }
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        return tuple(SizeOption(**dict(zip(columns, row, strict=True))) for row in rows)


def cheapest(menu: WeightedOptions, view: JobView) -> list[str]:
    """Return the cheapest option of a waiting job, and its weight; nothing without options."""
    if not menu.options:
        return []
    option = min(menu.options, key=lambda o: (o.power_uw, o.units))
    return [
        f"Its cheapest option is {_what(view, option)}: {option.power_uw / 1e6:.1f} W "
        f"above idle, done in {option.total_s:.0f} s.",
        f"Weight {menu.weight:.3g} (Eq. 8); it grows while the job waits.",
    ]


def alternatives(menu: WeightedOptions, view: JobView) -> list[str]:
    """Return costs and gains of the neighbours of the current choice."""
    current = view.current
    assert current is not None
    here = [o for o in menu.options if o.size == current.size]
    at = min(here, key=lambda o: _apart_uw(o, current), default=None)
    if at is None:
        return []
    lines = [
        f"Speedup {at.speedup:.2f} over its minimum size and cap, for {at.power_uw / 1e6:.1f} W.",
    ]
    for option in _neighbours(menu.options, at):
        gain = option.speedup / at.speedup - 1
        cost_w = (option.power_uw - at.power_uw) / 1e6
        lines.append(f"With {_what(view, option)}: {gain:+.0%} speed for {cost_w:+.1f} W.")
    if len({o.size for o in menu.options}) == 1:
        lines.append(f"Its size is fixed at {size_text(view.spec, at.size)} now.")
    return lines


def _apart_uw(option: SizeOption, current: Assignment) -> tuple[int, int, int]:
    """Return the distance of an option from the resources of a job."""
    return (
        abs(option.cap_uw - current.cap_uw),
        abs(option.dram_cap_uw - current.levels.dram_uw),
        abs((option.gpu_uw or _GREATEST_UW) - (current.levels.gpu_uw or _GREATEST_UW)),
    )


def _neighbours(options: tuple[SizeOption, ...], at: SizeOption) -> list[SizeOption]:
    """Return the adjacent options in size, cap, DRAM cap and GPU level, the rest unchanged."""
    axes = ("cap_uw", "size", "dram_cap_uw", "gpu_uw")

    def along(axis: str) -> list[SizeOption]:
        fixed = [name for name in axes if name != axis]
        same = (o for o in options if all(getattr(o, n) == getattr(at, n) for n in fixed))
        # GPUs without a level have their maximum.
        least = _GREATEST_UW if axis == "gpu_uw" else 0
        return sorted(same, key=lambda o: int(getattr(o, axis)) or least)

    out: list[SizeOption] = []
    for series in map(along, axes):
        index = series.index(at)
        out += series[max(index - 1, 0) : index] + series[index + 1 : index + 2]
    return out


def _what(view: JobView, option: SizeOption) -> str:
    beside = f", DRAM at {option.dram_cap_uw / 1e6:.1f} W" if option.dram_cap_uw else ""
    if option.gpu_uw:
        beside += f", each GPU at {option.gpu_uw / 1e6:.1f} W"
    elif view.current is not None and view.current.levels.gpu_uw:
        beside += ", its GPUs at their maximum"
    return f"{size_text(view.spec, option.size)} at {option.cap_uw / 1e6:.1f} W{beside}"

"""Work on GPUs under lower limits: the curve that planners, simulators and emulated GPUs share."""

from __future__ import annotations

from wattfold.contract.gpu_curve import LEAST_CLOCK, GpuCurve

__all__ = ["LEAST_CLOCK", "GpuCurve"]

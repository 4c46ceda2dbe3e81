"""Work on GPUs under lower limits: the curve that planners, simulators and emulated GPUs share."""

from __future__ import annotations

from wattfold.contract.gpu_curve import KNEE, LEAST_CLOCK, STATIC_SHARE, GpuCurve

__all__ = ["KNEE", "LEAST_CLOCK", "STATIC_SHARE", "GpuCurve"]

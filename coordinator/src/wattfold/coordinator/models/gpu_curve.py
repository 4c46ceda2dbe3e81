"""Speed of GPUs under lower limits: the curve shared by planners, simulators and emulated GPUs."""

from __future__ import annotations

from wattfold.contract.gpu_curve import KNEE, LEAST_CLOCK, STATIC_SHARE, GpuCurve

__all__ = ["KNEE", "LEAST_CLOCK", "STATIC_SHARE", "GpuCurve"]

"""GPU settings of the configuration: listed and emulated GPUs, and their names for jobs."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattfold.contract.gpu_curve import GpuCurve
from wattfold.contract.ids import valid_name
from wattfold.contract.units import NS_PER_MS, NS_PER_US, uw_from_w
from wattfold.nodeagent.adapters.config_error import Places
from wattfold.nodeagent.adapters.devices.emulated_gpus import EmulatedGpuSpec
from wattfold.nodeagent.adapters.devices.emulated_zone import ZoneRange
from wattfold.nodeagent.core.caps import quantised, quantised_up
from wattfold.nodeagent.core.gpu_emulation import MODEL_DEFAULT, MODELS, GpuModel
from wattfold.nodeagent.core.gpus import DeviceNode, GpuNames, GpuVendor, NodeGpu

_CURVE_KEYS = ("gpu_static_w", "gpu_full_w", "gpu_knee", "gpu_beta")
_MODEL_KEYS = ("gpu_min_w", "gpu_max_w", "gpu_idle_w", *_CURVE_KEYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuConfig:
    """``listed``: GPUs offered if no driver finds any. ``model``: of all GPUs; empty = query it."""

    listed: tuple[NodeGpu, ...] = ()
    model: str = ""
    names: GpuNames = GpuNames.UUID
    access: str = "auto"
    """How access to GPUs of other jobs is denied: auto, cgroup (required) or off."""
    emulated: EmulatedGpuSpec | None = None


def gpu_config(
    top: Mapping[str, Any], emulation: Mapping[str, Any], names: Sequence[str], source: Places
) -> GpuConfig:
    """Return the checked settings. ``names`` is the list in ``gpus``. Raises ConfigError."""
    model = top["gpu_model"] or ""
    if model and not valid_name(model):
        raise source.wrong("gpu_model", f"= {model!r} must be 1-63 characters of A-Z a-z 0-9 . _ -")
    emulated = _emulated(top, emulation, source)
    return GpuConfig(
        listed=_listed(top, [] if top["gpus"] in ("auto", "off") else names, source),
        model=emulated.model.name if emulated else model,
        names=GpuNames(top["gpu_names"]),
        access=top["gpu_access"],
        emulated=emulated,
    )


def _listed(top: Mapping[str, Any], names: Sequence[str], source: Places) -> tuple[NodeGpu, ...]:
    for name in names:
        if not re.fullmatch(r"\d{1,4}|(GPU|MIG)-.+", name):
            raise source.wrong(
                "gpus", f"= {name!r} must be auto, off, or numbers and UUIDs (GPU-...) of GPUs"
            )
    paths = [part.strip() for part in top["gpu_devices"].split(",") if part.strip()]
    if paths and len(paths) != len(names):
        why = f"names {len(paths)} device nodes, but gpus lists {len(names)} GPUs"
        raise source.wrong("gpu_devices", why)
    found = [(_device(path, source),) for path in paths]
    devices: list[tuple[DeviceNode, ...]] = [*found] or [()] * len(names)
    return tuple(
        NodeGpu(
            id=name,
            vendor=GpuVendor(top["gpu_vendor"]),
            index=int(name) if name.isdigit() else index,
            model=top["gpu_model"] or "",
            devices=own,
        )
        for index, (name, own) in enumerate(zip(names, devices, strict=True))
    )


def _device(path: str, source: Places) -> DeviceNode:
    try:
        found = Path(path).stat()
    except OSError as error:
        raise source.wrong("gpu_devices", f"= {path!r}: {error.strerror}") from None
    if not stat.S_ISCHR(found.st_mode):
        raise source.wrong("gpu_devices", f"= {path!r} is not a character device")
    return DeviceNode(major=os.major(found.st_rdev), minor=os.minor(found.st_rdev), path=path)


def _emulated(
    top: Mapping[str, Any], emulation: Mapping[str, Any], source: Places
) -> EmulatedGpuSpec | None:
    if not top["emulated_gpus"]:
        return None
    if top["emulate"] is not True:
        why = f"= {top['emulated_gpus']} needs emulate = true (--emulate without MACHINE)"
        raise source.wrong("emulated_gpus", why)
    if top["gpus"] not in ("auto", "off"):
        raise source.wrong(
            "gpus", f"= {top['gpus']!r} cannot be combined with emulated_gpus; use auto or off"
        )
    model = _model(top["gpu_model"] or MODEL_DEFAULT, emulation, source)
    accepts = ZoneRange(
        uw_min=quantised_up(uw_from_w(model.least_w)),
        uw_max=quantised(uw_from_w(model.most_w)),
        window_us=int(emulation["window_ms"] * NS_PER_MS / NS_PER_US),
        energy_range_uj=int(emulation["energy_range_uj"]),
        shown=True,
    )
    return EmulatedGpuSpec(count=top["emulated_gpus"], model=model, accepts=accepts)


def _model(name: str, given: Mapping[str, Any], source: Places) -> GpuModel:
    known = MODELS.get(name)
    missing = [key for key in _MODEL_KEYS if given[key] is None]
    if known is None and missing:
        raise source.wrong(
            "gpu_model",
            f"= {name!r} is not one of {', '.join(MODELS)}: set {', '.join(missing)}"
            " in [emulation]",
        )
    base = known or next(iter(MODELS.values()))
    values = {
        "gpu_min_w": base.least_w,
        "gpu_max_w": base.most_w,
        "gpu_idle_w": base.idle_w,
        "gpu_static_w": base.curve.static_w,
        "gpu_full_w": base.curve.full_w,
        "gpu_knee": base.curve.knee,
        "gpu_beta": base.curve.beta,
    } | {key: given[key] for key in _MODEL_KEYS if given[key] is not None}
    for high, low in (("gpu_max_w", "gpu_min_w"), ("gpu_full_w", "gpu_static_w")):
        if not values[low] < values[high]:
            why = f"= {values[high]:g} W must be above {low} = {values[low]:g} W"
            raise source.wrong(high, why, "emulation")
    model = GpuModel(
        name=name,
        least_w=values["gpu_min_w"],
        most_w=values["gpu_max_w"],
        idle_w=values["gpu_idle_w"],
        curve=GpuCurve(**{key.removeprefix("gpu_"): values[key] for key in _CURVE_KEYS}),
    )
    if not model.holds:
        draws_w = max(model.idle_w, model.curve.draw_w(model.least_w))
        why = f"= {model.least_w:g} W cannot be held: the model draws {draws_w:.1f} W at this limit"
        raise source.wrong("gpu_min_w", why, "emulation")
    return model

"""A profile as text: its parameters, and its points compared with the model."""

from __future__ import annotations

from wattfold.contract.units import w_from_uw
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.tables import (
    FieldTable,
    PlainTable,
    add_row,
    field_table,
    left,
    plain_table,
    right,
)
from wattfold.v1 import coordinator_pb2 as pb


def parameter_sheet(profile: pb.Profile) -> FieldTable:
    """Return the parameters of the model with their meaning."""
    unit = "node" if profile.unit == pb.SIZE_UNIT_NODES else "core"
    return field_table(
        [
            ("application", profile.app),
            ("source", profile.source or f.NONE),
            (f"time on one {unit}", f"T1 = {profile.t1_s:.3f} s at full power"),
            ("parallelism", f"A = {profile.average_parallelism:.2f} {unit}s on average"),
            ("parallelism variance", f"sigma = {profile.sigma:.3f}"),
            ("sensitivity to frequency", f"beta = {profile.beta:.3f}"),
            (
                "package power",
                f"p = {profile.a:.3f} f^3 + {profile.b:.3f} f + {profile.c:.2f} W, f in GHz",
            ),
            (
                "useful caps",
                f"{profile.p_low_w:.1f} W ({profile.f_low_ghz:.2f} GHz) to "
                f"{profile.p_high_w:.1f} W ({profile.f_high_ghz:.2f} GHz)",
            ),
            ("fit error", f"{profile.rms_error * 100:.2f} % (root mean square, relative)"),
            *_confidence(profile),
        ]
    )


def _confidence(profile: pb.Profile) -> list[tuple[str, str]]:
    """Return how much of a learnt profile is observed, and how much is still assumed."""
    from wattfold.coordinator.models.seen_points import weight_of

    observed_s = sum(point.observed_s for point in profile.points)
    if not observed_s:
        return []
    sizes = len({point.size for point in profile.points})
    return [
        (
            "confidence",
            f"{weight_of(observed_s):.0%}: observed for {f.duration(observed_s)} at {sizes} "
            f"{'size' if sizes == 1 else 'sizes'}, all else is assumed",
        )
    ]


def misfit(profile: pb.Profile) -> str:
    """Return a warning for a profile whose error is above its noise; empty without one."""
    from wattfold.coordinator.models.fit_noise import fit_warning

    points = [(p.size, w_from_uw(p.cap_uw), p.seconds) for p in profile.points if p.seconds > 0]
    return fit_warning(points, profile.rms_error) if points else ""


def point_table(profile: pb.Profile) -> PlainTable:
    """Return measured points, the model's time for each, and the difference."""
    table = plain_table(
        right("SIZE"),
        right("CAP W"),
        right("MEASURED S"),
        right("MODEL S"),
        right("RESIDUAL"),
        right("DRAW W"),
    )
    for point in profile.points:
        add_row(
            table,
            str(point.size),
            f.watts(point.cap_uw),
            f"{point.seconds:.3f}",
            f"{point.fitted_seconds:.3f}" if point.fitted_seconds else f.NONE,
            residual(point),
            f.watts(point.power_uw),
        )
    return table


def cost_table(profile: pb.Profile) -> PlainTable:
    """Return the costs of resizes, one row for each mode."""
    table = plain_table(
        left("RESIZED BY"),
        left("UNIT"),
        right("CHANGES"),
        right("STALLED"),
        right("REPEATED WORK"),
        right("MOVED"),
        right("COMPLETE AFTER"),
    )
    for cost in profile.resize_costs:
        moved = f.memory(cost.moved_bytes) if cost.HasField("moved_bytes") else f.NONE
        add_row(
            table,
            f.resize_way(cost.mode),
            f.enum_word(pb.SizeUnit.Name(cost.unit), "SIZE_UNIT_"),
            str(cost.changes),
            f.short_time(cost.stalled_ns),
            f.short_time(cost.again_ns) if cost.again_ns else f.NONE,
            moved,
            f.short_time(cost.took_ns) if cost.took_ns else f.NONE,
        )
    return table


def epoch_tables(profile: pb.Profile) -> list[PlainTable]:
    """Return the epoch times by number of GPUs, and the curves of GPU limits."""
    times = plain_table(left("GPU"), right("GPUS"), right("S/EPOCH"), right("EPOCHS"))
    for one in profile.epoch_times:
        model = one.gpu_model or f.NONE
        add_row(times, model, str(one.gpus), f"{one.seconds:.3f}", str(one.count))
    curves = plain_table(
        left("GPU"),
        right("STATIC W"),
        right("FULL W"),
        right("KNEE"),
        right("BETA"),
        right("ERROR"),
    )
    for curve in profile.gpu_curves:
        add_row(
            curves,
            curve.gpu_model or f.NONE,
            f"{curve.static_w:.1f}",
            f"{curve.full_w:.1f}",
            f"{curve.knee:.2f}",
            f"{curve.beta:.2f}",
            f"{curve.rms_error * 100:.1f}%",
        )
    return [table for table in (times, curves) if table.row_count]


def residual(point: pb.ProfilePoint) -> str:
    """Return the model's time relative to the measured time, in percent."""
    if not point.fitted_seconds or not point.seconds:
        return f.NONE
    return f"{(point.fitted_seconds / point.seconds - 1) * 100:+.1f}%"

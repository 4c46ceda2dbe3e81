"""Profiles of applications as messages and back: run time models, certificates, resize costs.

They are stored separately, so that a new part leaves the others unchanged. A message carries all
parts, and a profile may lack the model. The evidence in a certificate is for the command that made
it. Here it is only checked to be a document of limited size.
"""

from __future__ import annotations

import json
import math

from google.protobuf.message import Message

from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.requests.wire_enums import MODES, UNITS
from wattfold.coordinator.core.model.events import (
    EpochTimesStored,
    MeasuredPoint,
    ProfileStored,
    ProgramCertified,
)
from wattfold.coordinator.core.model.jobs.epoch_times import (
    NOTHING_SEEN,
    TIMES_MAX,
    SeenCurve,
    SeenEpochs,
)
from wattfold.coordinator.core.model.jobs.resize_cost import ResizeCost, app_of, known_of
from wattfold.coordinator.core.model.jobs.spec import ResizeMode
from wattfold.coordinator.core.state.state import State, StoredProfile
from wattfold.coordinator.models.gpu_curve import GpuCurve
from wattfold.coordinator.models.pass_model import PassProfile, SizeUnit
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

POINTS_MAX = 10_000
_RANGES = {
    "average_parallelism": (0.0, 1e9),
    "t1_s": (0.0, 1e12),
    "a": (1e-12, 1e6),
    **dict.fromkeys(("b", "c", "f_low_ghz", "f_high_ghz", "p_low_w", "p_high_w"), (0.0, 1e6)),
    **dict.fromkeys(("seconds", "fitted_seconds", "observed_s", "rate", "rms_error"), (0.0, 1e12)),
    **dict.fromkeys(("static_w", "full_w"), (0.0, 1e6)),
}
"""Values outside make no sense, and later computations with them would overflow."""
EVIDENCE_MAX = 1 << 18
LEARNT = "progress"
"""Source of a profile learnt from jobs."""
MODEL_MAX = 63
EPOCHS = "epochs"
"""Source of a profile that contains only epoch times."""
CERTIFIED = "certified"
"""Source of a profile that contains only a certificate."""
RESIZED = "resizes"
"""Source of a profile that contains only resize costs."""

_UNITS = {unit: number for number, unit in UNITS.items() if number}
_MODES = {mode: number for number, mode in MODES.items() if number}


def profile_messages(state: State, clock: Clock, app: str = "") -> list[pb.Profile]:
    """Return all profiles, or the profile of one application."""
    messages = [profile_message(entry, clock) for entry in state.profiles.values()]
    modelled = {message.app for message in messages}
    for name, certificate in state.certificates.items():
        if name not in modelled:
            stored_s = clock.wall_s(certificate.stored_ns)
            messages.append(pb.Profile(app=name, source=CERTIFIED, updated_at_s=stored_s))
    _add_epochs(messages, state, clock)
    known = {message.app for message in messages}
    resized = dict.fromkeys(app_of(key) for key in state.restarts)
    messages += [pb.Profile(app=name, source=RESIZED) for name in resized if name not in known]
    return [_with(message, state) for message in messages if app in ("", message.app)]


def _add_epochs(messages: list[pb.Profile], state: State, clock: Clock) -> None:
    """Add the epoch times. An application may have only these."""
    there = {message.app for message in messages}
    for name, known in state.epoch_times.items():
        if name not in there:
            stored_s = clock.wall_s(known.stored_ns)
            messages.append(pb.Profile(app=name, source=EPOCHS, updated_at_s=stored_s))
    for message in messages:
        seen = state.epoch_times.get(message.app, NOTHING_SEEN)
        for one in seen.times:
            message.epoch_times.add(
                gpu_model=one.gpu_model, gpus=one.gpus, seconds=one.seconds, count=one.count
            )
        for curve in seen.curves:
            message.gpu_curves.add(
                gpu_model=curve.gpu_model,
                static_w=curve.curve.static_w,
                full_w=curve.curve.full_w,
                knee=curve.curve.knee,
                beta=curve.curve.beta,
                rms_error=curve.rms_error,
            )


def events_from(
    message: pb.Profile,
) -> list[ProfileStored | ProgramCertified | EpochTimesStored]:
    """Return the events for a profile sent by a client. Raises ValueError if it is invalid."""
    events: list[ProfileStored | ProgramCertified | EpochTimesStored] = []
    if message.epoch_times or message.gpu_curves:
        events.append(epochs_from(message))
    has_model = bool(message.t1_s or message.average_parallelism or message.points)
    if message.certificate or message.mode:
        events.append(certified_from(message))
    if has_model or not events:
        events.append(stored_from(message))
    return events


def dropped(state: State, request: pb.DropProfileRequest) -> pb.DropProfileResponse:
    """Return the parts that a request deletes. Raises LookupError; ValueError if measured."""
    known = [e for e in state.profiles.values() if e.profile.app == request.app]
    certified = request.certificate and request.app in state.certificates
    epochs = ["epochs"] if request.app in state.epoch_times else []
    costs = bool(known_of(state.restarts, request.app))
    if not (known or certified or epochs or costs):
        raise LookupError(f"there is no profile of {request.app!r}; see `wattfold profiles`")
    measured = [entry for entry in known if entry.source != LEARNT]
    if request.learnt_only and measured:
        raise ValueError(
            f"the profile of {request.app} was measured, not learnt; `wattfold profile "
            f"delete {request.app}` deletes it"
        )
    return pb.DropProfileResponse(
        models=[*(SizeUnit(entry.profile.unit).value for entry in known), *epochs],
        certificate=certified,
        resize_costs=costs,
    )


def _check_ranges(message: Message) -> None:
    """Raises ValueError for a number of a profile that is not possible."""
    for name in _RANGES.keys() & message.DESCRIPTOR.fields_by_name.keys():
        (low, high), value = _RANGES[name], getattr(message, name)
        if not low <= value <= high:
            raise ValueError(f"{name} = {value:g} is outside {low:g}..{high:g}")


def epochs_from(message: pb.Profile) -> EpochTimesStored:
    """Return the epoch times of a profile. Raises ValueError."""
    if len(message.epoch_times) > TIMES_MAX or len(message.gpu_curves) > TIMES_MAX:
        raise ValueError(f"at most {TIMES_MAX} epoch times or GPU curves can be stored")
    for curve in message.gpu_curves:
        _check_ranges(curve)
    for one in message.epoch_times:
        if not (one.gpus >= 1 and math.isfinite(one.seconds) and one.seconds > 0):
            raise ValueError(f"an epoch time of {one.seconds} s on {one.gpus} GPUs is not possible")
    return EpochTimesStored(
        app=message.app,
        times=tuple(
            SeenEpochs(
                gpu_model=_model(one.gpu_model),
                gpus=one.gpus,
                seconds=one.seconds,
                count=max(one.count, 1),
            )
            for one in message.epoch_times
        ),
        curves=tuple(
            SeenCurve(
                gpu_model=_model(one.gpu_model),
                curve=GpuCurve(
                    static_w=one.static_w, full_w=one.full_w, knee=one.knee, beta=one.beta
                ),
                rms_error=one.rms_error,
            )
            for one in message.gpu_curves
        ),
    )


def _model(name: str) -> str:
    if len(name) > MODEL_MAX or not name.isprintable():
        raise ValueError(f"GPU model {name[:40]!r}: at most {MODEL_MAX} printable characters")
    return name


def certified_from(message: pb.Profile) -> ProgramCertified:
    """Return the certificate of a profile. Raises ValueError."""
    if len(message.certificate) > EVIDENCE_MAX:
        raise ValueError(
            f"the certificate has {len(message.certificate)} characters; the limit is "
            f"{EVIDENCE_MAX}"
        )
    mode = MODES.get(message.mode) if message.mode else None
    if mode not in (ResizeMode.MASK, ResizeMode.TEAM):
        raise ValueError(f"a certificate is for mode mask or team, not {_mode_word(message.mode)}")
    try:
        evidence = json.loads(message.certificate)
    except ValueError as error:
        raise ValueError(f"the certificate is not JSON: {error}") from error
    if not isinstance(evidence, dict) or evidence.get("mode") != mode.value:
        raise ValueError(f"the evidence of the certificate is not for mode {mode.value}")
    return ProgramCertified(app=message.app, mode=mode, evidence=message.certificate)


def _mode_word(mode: int) -> str:
    known = common_pb2.ResizeMode.values()
    return common_pb2.ResizeMode.Name(mode) if mode in known else str(mode)


def _with(message: pb.Profile, state: State) -> pb.Profile:
    """Add the resize costs and the certificate of the application to its profile."""
    for unit, mode, key in known_of(state.restarts, message.app):
        message.resize_costs.append(_cost_message(unit, mode, state.restarts[key]))
    certificate = state.certificates.get(message.app)
    if certificate is not None:
        message.mode = _MODES[certificate.certified.mode]
        message.certificate = certificate.certified.evidence
    return message


def _cost_message(unit: SizeUnit, mode: ResizeMode, cost: ResizeCost) -> pb.ResizeCost:
    return pb.ResizeCost(
        mode=_MODES[mode],
        unit=_UNITS[unit],
        changes=cost.count,
        stalled_ns=cost.stall_ns,
        again_ns=cost.again_ns,
        moved_bytes=cost.moved_bytes if cost.moved_count else None,
        took_ns=cost.took_ns,
    )


def profile_message(entry: StoredProfile, clock: Clock) -> pb.Profile:
    """Return a stored profile with the runs that it was fitted to."""
    p = entry.profile
    return pb.Profile(
        app=p.app,
        unit=_UNITS[SizeUnit(p.unit)],
        average_parallelism=p.average_parallelism,
        sigma=p.sigma,
        t1_s=p.t1_s,
        a=p.a,
        b=p.b,
        c=p.c,
        beta=p.beta,
        f_low_ghz=p.f_low_ghz,
        f_high_ghz=p.f_high_ghz,
        p_low_w=p.p_low_w,
        p_high_w=p.p_high_w,
        source=entry.source,
        updated_at_s=clock.wall_s(entry.stored_ns),
        rms_error=entry.stored.rms_error,
        points=[
            pb.ProfilePoint(
                size=point.size,
                cap_uw=point.cap_uw,
                seconds=point.seconds,
                power_uw=point.power_uw,
                fitted_seconds=point.fitted_seconds,
                observed_s=point.observed_s,
                rate=point.rate,
            )
            for point in entry.stored.points
        ],
    )


def stored_from(message: pb.Profile) -> ProfileStored:
    """Return the event for a model sent by a client. Raises ValueError if it is invalid."""
    if len(message.points) > POINTS_MAX:
        raise ValueError(f"the profile has {len(message.points)} points; the limit is {POINTS_MAX}")
    profile = profile_from(message)
    for part in (message, *message.points):
        _check_ranges(part)
    return ProfileStored(
        profile=profile,
        source=message.source or "measured",
        rms_error=message.rms_error,
        points=tuple(
            MeasuredPoint(
                size=point.size,
                cap_uw=point.cap_uw,
                seconds=point.seconds,
                power_uw=point.power_uw,
                fitted_seconds=point.fitted_seconds,
                observed_s=point.observed_s,
                rate=point.rate,
            )
            for point in message.points
        ),
    )


def profile_from(message: pb.Profile) -> PassProfile:
    """Return the model sent by a client. Raises ValueError if it is invalid."""
    if message.unit == pb.SIZE_UNIT_UNITS:
        raise ValueError(
            "a profile must be in cores or nodes, because units of two jobs may differ in size"
        )
    if message.unit not in UNITS:
        raise ValueError(f"unit {int(message.unit)} of the profile is unknown to this version")
    return PassProfile(
        app=message.app,
        unit=UNITS[message.unit],
        average_parallelism=message.average_parallelism,
        sigma=message.sigma,
        t1_s=message.t1_s,
        a=message.a,
        b=message.b,
        c=message.c,
        beta=message.beta,
        f_low_ghz=message.f_low_ghz,
        f_high_ghz=message.f_high_ghz,
        p_low_w=message.p_low_w,
        p_high_w=message.p_high_w,
    )

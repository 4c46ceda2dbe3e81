"""Checks of single fields of requests. Every refusal gives value, limit and unit.

Each function returns the value of the field, or its default. It raises InvalidRequestError.
"""

from __future__ import annotations

import math
import re
import signal

from wattfold.contract.ids import NodeId, valid_name
from wattfold.coordinator.adapters.clock import AHEAD_S, Clock
from wattfold.coordinator.adapters.requests.wire_enums import MAIL_EVENTS
from wattfold.coordinator.core.model.jobs.attempt import ATTEMPTS_MAX
from wattfold.coordinator.core.model.jobs.mail import MailRequest
from wattfold.v1 import coordinator_pb2 as pb

PRIORITY_MAX = 1000.0
MODE_SOURCE_MAX = 400
FEATURES_MAX = 32
PATH_MAX = 4096
EPOCHS_MAX = 10_000_000
MAIL_ADDRESS_MAX = 254
GRACE_NS_MAX = 3_600_000_000_000
"""Agents accept no longer grace time."""


class InvalidRequestError(Exception):
    """A request that is impossible as stated. The message gives value and limit."""


def epochs(message: pb.JobSpec) -> int:
    """Return the number of epochs of a training job."""
    if message.epochs > EPOCHS_MAX:
        raise InvalidRequestError(f"{message.epochs} epochs exceed the limit of {EPOCHS_MAX}")
    return message.epochs


def requeue_max(message: pb.JobSpec) -> int:
    """Return the number of further attempts."""
    if message.requeue_max >= ATTEMPTS_MAX:
        raise InvalidRequestError(
            f"{message.requeue_max} further attempts exceed the limit of {ATTEMPTS_MAX - 1}"
        )
    if message.requeue_on_failure and not message.requeue_max:
        raise InvalidRequestError(
            "requeue_on_failure needs requeue_max, the number of further attempts; it is 0"
        )
    return message.requeue_max


def snapshot_dir(text: str) -> str:
    """Return the folder of snapshots."""
    if len(text) > PATH_MAX:
        raise InvalidRequestError(
            f"snapshot folder {text[:40]!r} must have at most {PATH_MAX} characters"
        )
    return text


def end_signal(number: int) -> int:
    """Return the signal before the end of a job; 0 = SIGTERM. Raises InvalidRequestError."""
    if number in (signal.SIGKILL, signal.SIGSTOP) or not 0 <= number < signal.NSIG:
        raise InvalidRequestError(
            f"signal {number} cannot request a snapshot; use 1..{signal.NSIG - 1} except "
            "SIGKILL and SIGSTOP"
        )
    return number


def end_grace_ns(grace_ns: int) -> int:
    """Return the grace time before the end of a job; 0 = default. Raises InvalidRequestError."""
    if grace_ns > GRACE_NS_MAX:
        raise InvalidRequestError(
            f"grace time of {grace_ns / 1e9:g} s is above the limit of {GRACE_NS_MAX / 1e9:g} s"
        )
    return grace_ns


def mode_source(text: str) -> str:
    """Return the origin of the resize mode."""
    if len(text) > MODE_SOURCE_MAX or not text.isprintable():
        raise InvalidRequestError(
            f"origin of the mode {text[:40]!r}: at most {MODE_SOURCE_MAX} printable characters"
        )
    return text


def working_dir(text: str) -> str:
    """Return the working directory; the root folder by default."""
    if text and not text.startswith("/"):
        raise InvalidRequestError(f"working directory {text!r} is not absolute")
    return text or "/"


def positive(what: str, value: float) -> float:
    """Return a priority or weight; 1 by default."""
    if value == 0:
        return 1.0
    if not (math.isfinite(value) and 0 < value <= PRIORITY_MAX):
        raise InvalidRequestError(f"{what} {value} is outside 0..{PRIORITY_MAX:g}")
    return value


def features(message: pb.JobSpec) -> tuple[str, ...]:
    """Return the required features of nodes."""
    names = tuple(dict.fromkeys(message.features))
    if len(names) > FEATURES_MAX:
        raise InvalidRequestError(f"{len(names)} features exceed the limit of {FEATURES_MAX}")
    for name in names:
        if not valid_name(name):
            raise InvalidRequestError(f"feature {name!r}: use 1-63 of A-Z a-z 0-9 . _ -")
    return names


def among(message: pb.JobSpec) -> tuple[NodeId, ...]:
    """Return the nodes that the job may use."""
    for name in message.among:
        if not valid_name(name):
            raise InvalidRequestError(f"node {name!r}: use 1-63 of A-Z a-z 0-9 . _ -")
    return tuple(dict.fromkeys(map(NodeId, message.among)))


def due_ns(message: pb.JobSpec, clock: Clock) -> int:
    """Return the due date in coordinator time; -1 = none. Raises InvalidRequestError."""
    if not message.due_at_s:
        return -1
    late_s = clock.wall_s(clock.now_ns()) - message.due_at_s
    if not -AHEAD_S <= late_s < math.inf:
        raise InvalidRequestError("the due date must be within the next ten years")
    if late_s >= 0:
        raise InvalidRequestError(f"the due date is {late_s:.0f} s ago; give a future time")
    return clock.time_ns(message.due_at_s)


def mail(message: pb.JobSpec) -> MailRequest:
    """Return the requested mail. The address is one word of a command, and no option of it."""
    address = message.mail_to
    plain = re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._%+-]*(@[A-Za-z0-9.-]+)?", address)
    if address and (not plain or len(address) > MAIL_ADDRESS_MAX):
        raise InvalidRequestError(
            f"mail address {address[:60]!r}: use NAME or NAME@HOST with at most "
            f"{MAIL_ADDRESS_MAX} of A-Z a-z 0-9 . _ % + -"
        )
    if address and not message.mail:
        raise InvalidRequestError("a mail address needs events, such as --mail end")
    unknown = [number for number in message.mail if number not in MAIL_EVENTS]
    if unknown:
        raise InvalidRequestError(f"this version does not know the mail event {unknown[0]}")
    events = dict.fromkeys(MAIL_EVENTS[number] for number in message.mail)
    return MailRequest(events=tuple(events), address=address)

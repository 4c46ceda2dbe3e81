"""Mail that a user requests for a job."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class MailEvent(enum.Enum):
    """Event of a job. FAIL is an end without success; END is any end."""

    BEGIN = "begin"
    END = "end"
    FAIL = "fail"
    REQUEUE = "requeue"


@dataclass(frozen=True, slots=True, kw_only=True)
class MailRequest:
    """Events for which mail is sent, and the address; empty = the account of the job."""

    events: tuple[MailEvent, ...] = ()
    address: str = ""


NO_MAIL = MailRequest()

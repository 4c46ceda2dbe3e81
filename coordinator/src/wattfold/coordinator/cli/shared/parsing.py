"""Values on the command line: sizes, durations, powers, lists of them, environment variables."""

from __future__ import annotations

import math
import re
import signal
import time
from dataclasses import dataclass
from datetime import timedelta

from wattfold.contract.ids import valid_name
from wattfold.contract.local_time import LocalTimeError, local, parse_local_s
from wattfold.contract.units import NS_PER_S, uw_from_w
from wattfold.coordinator.cli.shared.parsed import Parsed as Parsed

MAX_SIZE = 1_000_000
MAX_DURATION_S = 366 * 86_400
MAX_POWER_W = 1e9
MAX_MEMORY = 1 << 60

_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_UNITS = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+\Z")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):([0-5]?\d):([0-5]?\d)\Z")
_POWER = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(mW|kW|MW|W)?\Z")
_MEMORY = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([KMGTkmgt])(i?B|)\Z")
_POWER_W = {"mW": 1e-3, "": 1.0, "W": 1.0, "kW": 1e3, "MW": 1e6}


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeRange:
    """The minimum and the maximum size of a job."""

    least: int
    greatest: int

    @property
    def is_range(self) -> bool:
        """Whether the sizes differ."""
        return self.greatest > self.least


def parse_size_range(text: str) -> SizeRange:
    """Parse `4` or `2-8`. Raises ValueError."""
    match = re.fullmatch(r"(\d{1,7})(?:-(\d{1,7}))?", text.strip())
    if match is None:
        raise ValueError(f"not a size: {text!r}; expected for example 4 or 2-8")
    least = int(match[1])
    greatest = int(match[2]) if match[2] else least
    if not 1 <= least <= greatest <= MAX_SIZE:
        raise ValueError(
            f"not a size: {text!r}; expected 1 <= MIN <= MAX <= {MAX_SIZE}, for example 2-8"
        )
    return SizeRange(least=least, greatest=greatest)


def parse_duration_ns(text: str) -> int:
    """Parse 90s, 5m, 1h30m, 2d, 500ms, HH:MM:SS or D-HH:MM:SS; return nanoseconds above zero.

    A bare number is refused: some schedulers read it as minutes, others as seconds. Raises
    ValueError.
    """
    clean = text.strip()
    clock = _CLOCK.match(clean)
    if clock:
        days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        total_s = float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
    elif _UNITS.match(clean):
        total_s = math.fsum(float(n) * _UNIT_S[unit] for n, unit in _PART.findall(clean))
    else:
        raise ValueError(f"not a duration: {text!r}; expected for example 90s, 1h30m or 01:30:00")
    if not 0 < total_s <= MAX_DURATION_S:
        raise ValueError(f"duration {text!r} is outside 1ms to {MAX_DURATION_S // 86_400}d")
    return round(total_s * NS_PER_S)


def parse_power_uw(text: str) -> int:
    """Parse 250, 250W or 1.5kW; return microwatts above zero, rounded down. Raises ValueError."""
    match = _POWER.match(text.strip())
    if match is None:
        raise ValueError(f"not a power: {text!r}; expected for example 250, 250W or 1.5kW")
    watts = float(match[1]) * _POWER_W[match[2] or ""]
    if not 0 < watts <= MAX_POWER_W:
        raise ValueError(f"power {text!r} is outside 0 W (not included) to {MAX_POWER_W:g} W")
    return uw_from_w(watts)


def parse_memory_bytes(text: str) -> int:
    """Parse 4G, 512M, 1.5GiB or 100MB; return bytes above zero. G is 1024 M. Raises ValueError."""
    match = _MEMORY.match(text.strip())
    if match is None:
        raise ValueError(f"not an amount of memory: {text!r}; expected for example 512M or 4G")
    scale = 1000 if match[3].upper() == "B" else 1024
    found = float(match[1]) * scale ** ("KMGT".index(match[2].upper()) + 1)
    if not 1 <= found <= MAX_MEMORY:
        raise ValueError(f"memory {text!r} is outside 1 byte to {MAX_MEMORY >> 40} TiB")
    return int(found)


def parse_time_s(text: str, now_s: float) -> float:
    """Parse ISO 8601 (local without a zone), or DURATION or +DURATION from now, to Unix seconds.

    Raises ValueError.
    """
    clean = text.strip()
    if clean.startswith("+") or _UNITS.match(clean):
        return now_s + parse_duration_ns(clean.removeprefix("+")) / NS_PER_S
    try:
        return parse_local_s(clean)
    except LocalTimeError:
        raise
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(
            f"not a time: {text!r}; expected for example 2027-01-31T18:00 or 2h from now"
        ) from error


def parse_moment_s(text: str) -> float:
    """Parse 2h (ago), 2026-11-22 or 2026-11-22T03:00 (local time); return seconds since 1970.

    Raises ValueError.
    """
    clean = text.strip()
    try:
        return parse_local_s(clean)
    except LocalTimeError:
        raise
    except ValueError:
        pass
    try:
        return time.time() - parse_duration_ns(clean) / NS_PER_S
    except ValueError:
        raise ValueError(
            f"not a time: {text!r}; expected for example 2h (ago), 2026-11-22 or 2026-11-22T03:00"
        ) from None


def parse_begin_s(text: str, now_s: float) -> float:
    """Parse now+1h, 16:00, 16:00:30 or a time as `parse_time_s`; `now` is 0.

    A time of day is the next such time. Raises ValueError.
    """
    clean = text.strip().lower()
    if clean == "now":
        return 0.0
    if clean.startswith("now+"):
        return now_s + parse_duration_ns(clean.removeprefix("now+")) / NS_PER_S
    if re.fullmatch(r"([01]?\d|2[0-3]):[0-5]\d(:[0-5]\d)?", clean):
        today = local(now_s).date()
        days = (today, today + timedelta(days=1))
        times_s = (parse_local_s(f"{day}T{clean.zfill(5)}") for day in days)
        return next(time_s for time_s in times_s if time_s > now_s)
    return parse_time_s(text, now_s)


def parse_names(text: str) -> tuple[str, ...]:
    """Parse `a,b`; return the names in this order, each once. Raises ValueError."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names or not all(map(valid_name, names)):
        raise ValueError(f"not a list of names: {text!r}; expected for example bigmem,gpu-a100")
    return names


def parse_size_list(text: str) -> tuple[int, ...]:
    """Parse `1,2,4`; return ascending numbers, each once. Raises ValueError."""
    sizes = {parse_size_range(part).least for part in text.split(",") if part.strip()}
    if not sizes or "-" in text:
        raise ValueError(f"not a list of sizes: {text!r}; expected for example 1,2,4")
    return tuple(sorted(sizes))


def parse_power_list_uw(text: str) -> tuple[int, ...]:
    """Parse `30,40.5,60`; return ascending microwatts, each once. Raises ValueError."""
    powers = {parse_power_uw(part) for part in text.split(",") if part.strip()}
    if not powers:
        raise ValueError(f"not a list of powers: {text!r}; expected for example 30,40,60")
    return tuple(sorted(powers))


def parse_setting(text: str) -> tuple[str, str | None]:
    """Parse `NAME=VALUE`, or `NAME` alone (None: use the caller's value). Raises ValueError."""
    name, equals, value = text.partition("=")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"not an environment variable: {text!r}; expected NAME=VALUE or NAME")
    return name, value if equals else None


def parse_any_signal(text: str) -> int:
    """Parse `USR1`, `SIGUSR1` or a number. Raises ValueError."""
    names = {known.name.removeprefix("SIG"): int(known) for known in signal.Signals}
    number = int(text) if text.isdecimal() else names.get(text.upper().removeprefix("SIG"), 0)
    if not 0 < number < signal.NSIG:
        raise ValueError(f"not a signal: {text!r}; expected for example USR1")
    return number


def parse_signal(text: str) -> int:
    """Parse `USR1`, `SIGUSR1` or a number, except KILL and STOP. Raises ValueError."""
    number = parse_any_signal(text)
    if number in (signal.SIGKILL, signal.SIGSTOP):
        raise ValueError(f"no program can handle the signal {text!r}; use for example USR1")
    return number


SIZE_RANGE = Parsed("size", parse_size_range)
DURATION_NS = Parsed("duration", parse_duration_ns)
POWER_UW = Parsed("watts", parse_power_uw)
SIZES = Parsed("sizes", parse_size_list)
MEMORY_BYTES = Parsed("memory", parse_memory_bytes)
TIME_S = Parsed("time", lambda text: parse_time_s(text, time.time()))
MOMENT = Parsed("moment", parse_moment_s)
BEGIN_S = Parsed("time", lambda text: parse_begin_s(text, time.time()))
NAMES = Parsed("names", parse_names)
POWERS_UW = Parsed("watts", parse_power_list_uw)
SIGNAL = Parsed("signal", parse_signal)
ANY_SIGNAL = Parsed("signal", parse_any_signal)
SETTING = Parsed("setting", parse_setting)

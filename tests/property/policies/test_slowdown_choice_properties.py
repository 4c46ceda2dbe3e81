"""The choice of mates against all combinations."""

from __future__ import annotations

from itertools import combinations

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from wattfold.coordinator.policies.slowdown_driven.choice import (
    INFINITE,
    Guest,
    Lender,
    MateEnd,
    MateLimits,
    later,
    penalty,
    select,
    takes_on,
)

NOW = 1000


SERIAL_PPM = st.sampled_from([0, 0, 200_000, 500_000, 990_000])


def lender(job: int, drawn: tuple[int, int, int, int, int, int]) -> Lender:
    nodes, waited, asked, left, lends, serial_ppm = drawn
    return Lender(job, nodes, waited, asked, NOW + left, lends, serial_ppm)


lenders = st.lists(
    st.tuples(
        st.integers(1, 5),
        st.integers(0, 300),
        st.integers(1, 100),
        st.integers(0, 200),
        st.integers(0, 8),
        SERIAL_PPM,
    ),
    max_size=8,
).map(lambda drawn: [lender(job, one) for job, one in enumerate(drawn)])
guests = st.builds(
    Guest,
    nodes=st.integers(1, 8),
    asked=st.integers(1, 60),
    cores=st.sampled_from([8, 16]),
    least=st.integers(1, 6),
    serial_ppm=SERIAL_PPM,
)


READINGS = st.sampled_from(list(MateEnd))


def ends_for(mate: Lender, guest: Guest, given: int, limits: MateLimits) -> int:
    """Latest end of a mate for its guest to end before it, in both readings of the paper."""
    after = limits.mate_end is MateEnd.AFTER
    return mate.ends + later(mate, guest, given) if after else mate.ends


def exhaustive(
    guest: Guest,
    able: list[Lender],
    limits: MateLimits,
    free: int,
    latest: int | None,
    banned: frozenset[int],
) -> float | None:
    """Minimum impact of any set of mates, directly from the constraints."""
    best: float | None = None
    for count in range(1, limits.mates + 1):
        for mates in combinations(able, count):
            held = sum(one.nodes for one in mates)
            most = min(guest.cores, *(one.lends for one in mates))
            if not guest.nodes - free <= held <= guest.nodes or not held:
                continue
            if most < guest.least:
                continue
            penalties = [penalty(one, guest) for one in mates]
            if any(one >= limits.most_slowdown for one in penalties):
                continue
            if banned.issuperset(one.job for one in mates):
                continue
            # Fewer cores than a combination could provide only delay its end.
            takes = takes_on(guest, most)
            if any(NOW + takes > ends_for(one, guest, most, limits) for one in mates):
                continue
            if latest is not None and NOW + takes >= latest:
                continue
            best = min(sum(penalties), best if best is not None else sum(penalties))
    return best


@settings(max_examples=examples(400))
@given(
    guest=guests,
    able=lenders,
    most=st.sampled_from([2.0, 5.0, 10.0, INFINITE]),
    mate_end=READINGS,
    mates=st.integers(1, 4),
    free=st.integers(0, 3),
    latest=st.none() | st.integers(NOW, NOW + 250),
    banned=st.frozensets(st.integers(0, 8)),
)
def test_without_a_limit_to_those_looked_at_nothing_is_better(
    guest: Guest,
    able: list[Lender],
    most: float,
    mate_end: MateEnd,
    mates: int,
    free: int,
    latest: int | None,
    banned: frozenset[int],
) -> None:
    limits = MateLimits(most_slowdown=most, mates=mates, mate_end=mate_end)
    spare = min(free, guest.nodes - 1)
    pick = select(
        guest,
        able,
        NOW,
        limits,
        free=lambda _: free,
        latest=latest,
        allowed=lambda jobs: not banned.issuperset(jobs),
    )
    best = exhaustive(guest, able, limits, spare, latest, banned)
    assert (pick is None) == (best is None)
    if pick is None:
        return
    assert pick.impact == pytest.approx(best)
    chosen = [able[job] for job in pick.mates]
    assert len(set(pick.mates)) == len(pick.mates) <= mates
    assert sum(one.nodes for one in chosen) + pick.free == guest.nodes
    assert all(guest.least <= pick.cores <= one.lends for one in chosen)
    assert all(penalty(one, guest) < most for one in chosen)
    assert pick.takes == takes_on(guest, pick.cores)
    ends = [ends_for(one, guest, pick.cores, limits) for one in chosen]
    assert all(NOW + pick.takes <= ends_so for ends_so in ends)
    assert latest is None or NOW + pick.takes < latest


@settings(max_examples=examples(200))
@given(guest=guests, able=lenders, looked_at=st.integers(1, 6), mate_end=READINGS)
def test_those_looked_at_are_the_first_by_penalty(
    guest: Guest, able: list[Lender], looked_at: int, mate_end: MateEnd
) -> None:
    """All mates lend equally, so all combinations have the same first mates by penalty."""
    able = [one._replace(lends=guest.cores) for one in able]
    guest = guest._replace(serial_ppm=0)
    able = [one._replace(serial_ppm=0) for one in able]
    limits = MateLimits(most_slowdown=INFINITE, looked_at=looked_at, mate_end=mate_end)
    ends = NOW + guest.asked
    inside = [one for one in able if ends <= ends_for(one, guest, guest.cores, limits)]
    inside = [one for one in inside if one.nodes <= guest.nodes]
    first = sorted(inside, key=lambda one: (penalty(one, guest), one.job))[:looked_at]
    pick = select(guest, able, NOW, limits)
    best = exhaustive(guest, first, limits, 0, None, frozenset())
    assert (pick is None) == (best is None)
    assert pick is None or pick.impact == pytest.approx(best)

"""An idle agent wakes up rarely, and its histories answer without a scan of all readings."""

import asyncio

from hypothesis import example, given
from hypothesis import strategies as st

from wattfold.nodeagent.adapters import beat
from wattfold.nodeagent.core.energy import PowerHistory, mean_power_uw
from wattfold.nodeagent.service.power.sampling import sample_for_ever


class _Loop(asyncio.SelectorEventLoop):
    """An event loop whose clock moves to the next timer; it counts its wake-ups."""

    def __init__(self):
        self.now_s = beat._BEGUN_S
        self.wakes = 0
        super().__init__()
        self._selector.select = self._skip

    def time(self):
        return self.now_s

    def _skip(self, timeout=None):
        if timeout:
            self.now_s += timeout
            self.wakes += 1
        return []


def test_periodic_work_shares_its_wake_ups():
    loop = _Loop()
    counts = dict.fromkeys((0.1, 0.5, 1.0), 0)

    async def work(period_s):
        while True:
            await beat.next_beat(period_s)
            counts[period_s] += 1

    async def run():
        tasks = [asyncio.create_task(work(period_s)) for period_s in counts]
        await asyncio.sleep(0.03)  # Work that does not start at a beat.
        tasks.append(asyncio.create_task(work(0.5)))
        await asyncio.sleep(100.0)
        for task in tasks:
            task.cancel()

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()
    assert counts == {0.1: 1000, 0.5: 400, 1.0: 100}
    assert loop.wakes <= 1005, "only the fastest work wakes the agent"


class _Samples:
    """Records the beats of all samples."""

    def __init__(self):
        self.beats, self.at_floor, self.lease_ns = [], False, 1

    def remaining_ns(self):
        return self.lease_ns

    def sample(self, beats=1):
        self.beats.append(beats)


def test_a_node_at_rest_is_sampled_for_its_checks_only():
    """Jobs need the fast samples, and so does a node that is not at its floors without a lease."""
    loop, power, idle = _Loop(), _Samples(), [True]

    async def run():
        task = asyncio.create_task(sample_for_ever(power, lambda: idle[0]))
        for state in (
            {"idle": True},
            {"idle": False},
            {"idle": True},
            {"idle": True, "lease_ns": 0},
            {"idle": True, "lease_ns": 0, "at_floor": True},
        ):
            idle[0] = state.pop("idle")
            power.lease_ns, power.at_floor = 1, False
            for name, value in state.items():
                setattr(power, name, value)
            await asyncio.sleep(1.0)  # The state counts from the next sample on.
            power.beats.clear()
            await asyncio.sleep(2.0)
            seen.append((set(power.beats), len(power.beats)))
        task.cancel()

    seen: list[tuple[set[int], int]] = []
    try:
        loop.run_until_complete(run())
    finally:
        loop.close()
    assert seen == [({5}, 4), ({1}, 20), ({5}, 4), ({1}, 20), ({5}, 4)]


# Small numbers, so that times are often equal.
_READINGS = st.tuples(st.integers(1, 5), st.integers(0, 3), st.integers(0, 40))


@given(st.lists(_READINGS, max_size=40), st.integers(1, 20), st.integers(0, 60))
@example(steps=[(1, 0, 0), (1, 0, 5), (2, 0, 40)], over_ns=2, since_ns=0)
def test_power_over_a_time_is_that_of_a_search_through_all_readings(steps, over_ns, since_ns):
    history, readings, now_ns, total_uj = PowerHistory(), [], 0, 0
    for step_ns, late_ns, step_uj in steps:
        now_ns, total_uj = now_ns + step_ns, total_uj + step_uj
        history.add(now_ns, total_uj, late_ns)
        readings.append((now_ns, total_uj, late_ns))
    assert history.mean_uw(over_ns) == _mean_uw(readings, over_ns)
    assert history.certain_uw(over_ns, since_ns) == _certain_uw(readings, over_ns, since_ns)


def _mean_uw(readings, over_ns):
    if len(readings) < 2:
        return 0
    last_ns, last_uj, _ = readings[-1]
    older = [reading for reading in readings if reading[0] < last_ns - over_ns]
    first_ns, first_uj, _ = readings[len(older)]
    if older and last_ns - first_ns <= over_ns // 2:
        first_ns, first_uj, _ = older[-1]
    return mean_power_uw(last_uj - first_uj, last_ns - first_ns)


def _certain_uw(readings, over_ns, since_ns):
    for time_ns, total_uj, late_ns in reversed(readings):
        last_ns, last_uj, _ = readings[-1]
        if time_ns <= last_ns - over_ns:
            begin_ns = time_ns - late_ns
            if begin_ns < since_ns:
                return None
            return mean_power_uw(last_uj - total_uj, last_ns - begin_ns)
    return None

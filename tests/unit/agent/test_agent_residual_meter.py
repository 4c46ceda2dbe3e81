"""Residual work: measurement, start and end of the alarm, and the cost of sampling."""

from hypothesis import given
from hypothesis import strategies as st

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.units import NS_PER_MS, NS_PER_S
from wattfold.nodeagent.core.residual import STEPS_MAX, AlarmRule, Pace, ResidualMeter

HELD = CpuSet.parse("0-1")


def meter() -> ResidualMeter:
    return ResidualMeter(rule=AlarmRule(share=0.05, window_ns=5 * NS_PER_S))


def test_only_work_on_other_cores_counts():
    m = meter()
    m.add(NS_PER_S, {0: 900, 1: 800, 2: 70, 3: 0}, HELD)
    m.add(2 * NS_PER_S, {2: 5, 4: 6}, HELD)
    assert (dict(m.by_cpu), m.total_ns) == ({2: 75, 4: 6}, 81)
    m.add(3 * NS_PER_S, {2: 100}, CpuSet.parse("0-2"))
    assert m.by_cpu[2] == 75, "a core that it got back is its own"


def test_load_is_a_mean_over_the_window():
    m = meter()
    m.add(NS_PER_S, {2: NS_PER_S // 10}, HELD)
    assert m.loads() == {2: 0.02}
    m.add(6 * NS_PER_S - 1, {}, HELD)
    assert m.load(2) == 0.02
    m.add(6 * NS_PER_S, {}, HELD)
    assert (m.loads(), m.load(2)) == ({}, 0.0)
    assert m.by_cpu[2] == NS_PER_S // 10, "what happened is not forgotten"


def test_the_alarm_is_for_all_cores_together_and_does_not_flutter():
    m = meter()
    assert not m.add(NS_PER_S, {2: 200 * NS_PER_MS}, HELD)
    assert m.add(2 * NS_PER_S, {3: 51 * NS_PER_MS}, HELD)
    assert m.alarm
    # The first step has left the window; half the threshold keeps the alarm on.
    assert m.add(6 * NS_PER_S, {3: 80 * NS_PER_MS}, HELD) is False
    assert m.alarm
    assert m.add(7 * NS_PER_S, {}, HELD)
    assert not m.alarm


@given(
    st.lists(
        st.tuples(
            st.integers(1, NS_PER_S),
            st.dictionaries(st.integers(0, 5), st.integers(0, 10**9), max_size=4),
        ),
        max_size=60,
    )
)
def test_the_window_holds_exactly_what_is_young_enough(steps):
    m = meter()
    now, log = 0, []
    for gap, used in steps:
        now += gap
        m.add(now, used, HELD)
        log.append((now, {c: ns for c, ns in used.items() if c > 1}))
    expected = {}
    for when, used in log:
        for cpu, ns in used.items():
            if when > now - m.rule.window_ns and ns:
                expected[cpu] = expected.get(cpu, 0) + ns
    assert m.loads() == {cpu: ns / m.rule.window_ns for cpu, ns in expected.items()}
    assert m.total_ns == sum(sum(used.values()) for _, used in log)


def test_memory_is_bounded():
    m = meter()
    for step in range(2 * STEPS_MAX):
        m.add(step, {2: 1}, HELD)
    assert m.load(2) * m.rule.window_ns <= STEPS_MAX + 1


def test_what_costs_more_is_done_less_often():
    pace = Pace(share=0.005, interval_ns_min=100 * NS_PER_MS, interval_ns_max=5 * NS_PER_S)
    assert pace.interval_ns(0) == 100 * NS_PER_MS
    assert pace.interval_ns(5 * NS_PER_MS) == NS_PER_S
    assert pace.interval_ns(NS_PER_S) == 5 * NS_PER_S

"""Workload models against published values and against consequences of their definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import gamma, kstest
from unit.workloads.swf_files import real_log

from wattfold.simulator.workloads.lublin import (
    BATCH,
    COMBINED,
    INTERACTIVE,
    LublinKind,
    LublinParameters,
    draw_arrivals_s,
    draw_runs_s,
    draw_sizes,
    generate_lublin,
    on_daily_clock_s,
    slot_weights,
)
from wattfold.simulator.workloads.poisson import generate_poisson
from wattfold.simulator.workloads.refitted import LogUniform, refit
from wattfold.simulator.workloads.swf_reader import read_swf
from wattfold.simulator.workloads.workload import Workload

KINDS = [COMBINED, BATCH, INTERACTIVE]
MANY = 40_000


def below(limit: float, shape: float, scale: float) -> tuple[float, float]:
    """Probability of a gamma draw below a limit, and the mean of such draws."""
    law = gamma(shape, scale=scale)
    share = law.cdf(limit)
    return share, quad(lambda x: x * law.pdf(x), 0, limit, limit=200)[0] / share


@pytest.mark.parametrize("p", KINDS)
def test_lublin_sizes_have_the_published_shares(p: LublinParameters) -> None:
    sizes = draw_sizes(p, MANY, np.random.default_rng(1))
    tolerance = 4 * math.sqrt(0.25 / MANY)
    assert np.mean(sizes == 1) == pytest.approx(p.serial_share, abs=tolerance)
    powers = np.log2(sizes[sizes > 1]) % 1 == 0
    # Some of the other sizes are powers of two by chance.
    assert np.mean(powers) >= p.power_of_two_share / (1 - p.serial_share) - tolerance
    assert sizes.max() <= 2 ** math.ceil(p.u_high)


@pytest.mark.parametrize("p", KINDS)
@pytest.mark.parametrize("size", [1, 64])
def test_lublin_run_times_have_the_mean_of_their_mixture(p: LublinParameters, size: int) -> None:
    runs = draw_runs_s(p, np.full(MANY, size), np.random.default_rng(2))
    weight = min(1.0, max(0.0, p.pa * size + p.pb))
    first, second = below(12, p.a1, p.b1), below(12, p.a2, p.b2)
    shares = np.array([weight * first[0], (1 - weight) * second[0]])
    expected = float(shares @ [first[1], second[1]] / shares.sum())
    logs = np.log(runs)
    assert logs.mean() == pytest.approx(expected, abs=5 * logs.std() / math.sqrt(MANY))
    assert 1 <= runs.min() <= runs.max() <= math.exp(12)


@pytest.mark.parametrize("p", KINDS)
def test_lublin_arrivals_follow_their_daily_cycle(p: LublinParameters) -> None:
    weights = slot_weights(p)
    assert weights.mean() == pytest.approx(1)
    assert weights.min() > 0
    arrivals = draw_arrivals_s(p, MANY, np.random.default_rng(3))
    assert np.all(np.diff(arrivals) >= 0)
    slots = (arrivals % 86_400 // 1800).astype(int)
    share = np.bincount(slots, minlength=48) * 48 / MANY
    # Gaps vary widely, so the share of a half hour scatters much more than a count would.
    assert np.corrcoef(share, weights)[0, 1] > 0.9


@pytest.mark.parametrize("p", KINDS)
def test_lublin_gaps_have_the_mean_of_their_law(p: LublinParameters) -> None:
    law = gamma(p.a_arrival * p.rush_ratio, scale=p.b_arrival)
    below_limit = law.cdf(13)
    first, second = (
        quad(lambda x, k=k: np.exp(k * x) * law.pdf(x), 0, 13, limit=200)[0] / below_limit
        for k in (1, 2)
    )
    span = draw_arrivals_s(p, MANY, np.random.default_rng(6))[-1]
    error = 5 * math.sqrt((second - first**2) / MANY) + 86_400 / MANY
    assert span / MANY == pytest.approx(first, abs=error)


def test_the_peak_of_arrivals_is_in_working_hours() -> None:
    assert 9 * 2 <= int(np.argmax(slot_weights(COMBINED))) <= 16 * 2


def test_the_daily_clock_keeps_days() -> None:
    weights = slot_weights(BATCH)
    moments = np.linspace(0, 3 * 86_400, 1000)
    seconds = on_daily_clock_s(moments, weights)
    assert np.all(np.diff(seconds) > 0)
    assert seconds[-1] == pytest.approx(3 * 86_400)
    assert on_daily_clock_s(moments, np.ones(48)) == pytest.approx(moments)


def test_lublin_is_a_function_of_its_seed() -> None:
    first, again = generate_lublin(200, 7), generate_lublin(200, 7)
    assert first.equals(again)
    assert not np.array_equal(first.run_s, generate_lublin(200, 8).run_s)


def test_lublin_fits_a_machine_and_merges_both_kinds() -> None:
    jobs = generate_lublin(3000, 5, procs=100, kind=LublinKind.BOTH, overestimate=3.0)
    assert len(jobs) == 3000
    assert jobs.sizes.max() <= 100
    assert set(jobs.queues.tolist()) == {0, 1}
    assert np.all(np.diff(jobs.submit_s) >= 0)
    assert np.all(jobs.requested_s >= jobs.run_s)
    assert np.all(jobs.requested_s <= np.ceil(3 * jobs.run_s))
    assert generate_lublin(10, 5).requested_s.tolist() == [-1] * 10


def test_poisson_has_the_distributions_of_the_paper() -> None:
    load = 0.8
    jobs, ranges = generate_poisson(MANY // 4, 3, load=load)
    gaps = np.diff(jobs.submit_s)
    assert kstest(gaps, "expon", args=(0, 64.5 / load)).pvalue > 1e-4
    on_all = [ranges.profile(index).time_s(64, 60) for index in range(2000)]
    assert kstest(on_all, "expon", args=(0, 64.5)).pvalue > 1e-4
    assert np.bincount(jobs.procs, minlength=65)[0] == 0
    assert jobs.procs.mean() == pytest.approx(32.5, abs=1)
    assert (jobs.procs.min(), jobs.procs.max()) == (1, 64)
    assert ranges.size_min.tolist() == jobs.procs.tolist()
    assert set(ranges.size_max.tolist()) == {64}
    assert ranges.profile(5).time_s(jobs.procs[5], 60) == pytest.approx(jobs.run_s[5])


def test_a_log_uniform_law_is_found_again() -> None:
    law = LogUniform(low=2.0, high=500.0)
    values = law.draw(MANY, np.random.default_rng(4))
    found = LogUniform.fitted(values)
    assert found.low == pytest.approx(2.0, rel=0.02)
    assert found.high == pytest.approx(500.0, rel=0.02)
    assert LogUniform.fitted(np.full(5, 3.0)) == LogUniform(low=3.0, high=3.0)


def test_a_refitted_model_finds_its_own_numbers_again() -> None:
    log = generate_lublin(4000, 1, overestimate=5.0)
    model = refit(log)
    drawn = model.generate(20_000, 2)
    shares = [np.mean(np.log2(jobs.sizes[jobs.sizes > 1]) % 1 == 0) for jobs in (log, drawn)]
    assert shares[1] == pytest.approx(shares[0], abs=0.03)
    again = refit(drawn)
    assert again.serial_share == pytest.approx(model.serial_share, abs=0.02)
    assert again.exact_share == pytest.approx(model.exact_share, abs=0.05)
    assert again.mean_gap_s == pytest.approx(model.mean_gap_s, rel=0.05)
    assert np.corrcoef(again.day_weights, model.day_weights)[0, 1] > 0.9
    assert np.all(drawn.run_s <= drawn.requested_s)
    assert np.all(drawn.run_s >= 1)
    assert any("refitted" in line for line in drawn.header.lines)
    assert drawn.equals(model.generate(20_000, 2))


def test_a_refitted_model_of_a_real_log_resembles_it() -> None:
    jobs = read_swf(real_log("kth_sp2.swf.gz")).workload
    model = refit(jobs)
    drawn = model.generate(len(jobs), 1)
    assert drawn.span_s == pytest.approx(jobs.span_s, rel=0.05)
    assert np.mean(drawn.sizes == 1) == pytest.approx(np.mean(jobs.sizes == 1), abs=0.02)
    assert drawn.sizes.max() <= 100
    ratio = np.median(drawn.requested_s) / np.median(jobs.requested_s)
    assert 0.4 < ratio < 2.5


def test_models_refuse_nonsense() -> None:
    for call in (
        lambda: generate_lublin(0, 1),
        lambda: generate_lublin(5, 1, procs=1),
        lambda: generate_lublin(5, 1, overestimate=0.5),
        lambda: generate_poisson(5, 1, load=0),
        lambda: generate_poisson(5, 1, load=math.nan),
        lambda: generate_poisson(5, 1, load=1, sigma=2),
        lambda: refit(generate_lublin(50, 1)),
        lambda: refit(Workload.of_columns(run_s=[1] * 200, procs=[1] * 200, submit_s=[0] * 200)),
    ):
        with pytest.raises(ValueError, match=r"at least|needs|fit"):
            call()

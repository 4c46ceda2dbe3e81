"""Experiment b: the log of Curie under MAXSD 10, by category and by day (section 4.2).

It has no cases without its log.
"""

from __future__ import annotations

from collections.abc import Callable

from wattfold.simulator.papers.samples import Samples, judged
from wattfold.simulator.papers.slowdown_driven.case import (
    BASELINES,
    LIMITED,
    STATIC,
    SlowdownCase,
    SlowdownPlan,
)
from wattfold.simulator.papers.slowdown_driven.ratios import exactly, sure
from wattfold.simulator.papers.verdicts import (
    Claim,
    Judgement,
    Ruling,
    above,
    near,
)
from wattfold.simulator.results.categories import Categories, empty_categories
from wattfold.simulator.results.intervals import Interval, mean_interval

WORKLOAD = "curie"
POLICY = "10"
_Judge = Callable[[], tuple[str, Ruling, Interval | None]]


def cases(plan: SlowdownPlan) -> list[SlowdownCase]:
    """Return static backfill and MAXSD 10."""
    if WORKLOAD not in plan.workloads:
        return []
    return [
        case
        for passes in BASELINES
        for policy in (STATIC, POLICY)
        for case in plan.cases(WORKLOAD, passes, policy)
    ]


def judgements(plan: SlowdownPlan, samples: Samples) -> list[Judgement]:
    """Judge the claims of section 4.2."""
    if WORKLOAD not in plan.workloads:
        return []
    source = "section 4.2, Figures 4 to 7"

    def share(measure: str, published: float) -> _Judge:
        def judge() -> tuple[str, Ruling, Interval | None]:
            cases = plan.cases(WORKLOAD, LIMITED, POLICY)
            values = samples.sample(cases, measure) / samples.sample(cases, "jobs")
            interval = sure(mean_interval(values), cases)
            count = samples.sample(cases, measure).mean()
            text = f"{count:.0f}, {interval.mean:.1%} of the jobs"
            return text, near(interval, published, 0.0), interval

        return judge

    def small_gain() -> tuple[str, Ruling, Interval | None]:
        inside, outside = _category_ratios(plan, samples)
        interval = exactly(outside - inside)
        text = f"{inside:.2f} of the static slowdown against {outside:.2f} of all others"
        return text, above(interval, 0.0), interval

    def peaks() -> tuple[str, Ruling, Interval | None]:
        [shared] = plan.cases(WORKLOAD, LIMITED, POLICY)
        [static] = plan.cases(WORKLOAD, LIMITED, STATIC)
        ours, theirs = (max(day_series(samples, case)["slowdown"]) for case in (shared, static))
        value = ours / theirs
        interval = exactly(1 - value)
        text = f"worst day {theirs:.0f} static, {ours:.0f} shared"
        return text, above(interval, 0.0), interval

    return [
        judged(
            Claim(key="b.guests", text="20,476 jobs (10.3 %) start with mates", source=source),
            share("guests", 0.103),
        ),
        judged(
            Claim(key="b.mates", text="17,102 jobs (8.6 %) lend", source=source),
            share("mates", 0.086),
        ),
        judged(
            Claim(
                key="b.small",
                text="jobs up to 4 hours and 512 nodes gain more than the others",
                source=source,
            ),
            small_gain,
        ),
        judged(
            Claim(key="b.peaks", text="peaks of the daily slowdown are lower", source=source), peaks
        ),
    ]


def categories_of(samples: Samples, case: SlowdownCase) -> Categories:
    """Return the categories of a case. Raises MissingError."""
    values = samples.values(case)
    told = [name.split(".") for name in values if name.startswith("cell.")]
    held = empty_categories(1 << max((int(words[1]) for words in told), default=0))
    for _, row, column, name in told:
        getattr(held, name)[int(row), int(column)] = values[f"cell.{row}.{column}.{name}"]
    return held


def day_series(samples: Samples, case: SlowdownCase) -> dict[str, list[float]]:
    """Return values of each day with jobs: ``day``, ``slowdown``, ``guests``.

    Raises MissingError.
    """
    values = samples.values(case)
    days = sorted(
        int(name.split(".")[1]) for name in values if name.endswith(".jobs") and name[:4] == "day."
    )
    found: dict[str, list[float]] = {"day": [float(day) for day in days]}
    for name in ("slowdown", "guests"):
        found[name] = [values[f"day.{day}.{name}"] for day in days]
    return found


def _category_ratios(plan: SlowdownPlan, samples: Samples) -> tuple[float, float]:
    """Return slowdown relative to static, of jobs up to 512 nodes and 4 hours, and of others."""
    [shared] = plan.cases(WORKLOAD, LIMITED, POLICY)
    [static] = plan.cases(WORKLOAD, LIMITED, STATIC)
    sums = {True: [0.0, 0.0], False: [0.0, 0.0]}
    for place, case in enumerate((shared, static)):
        values = samples.values(case)
        for name, slowdown in values.items():
            if name.startswith("cell.") and name.endswith(".slowdown"):
                row, column = (int(word) for word in name.split(".")[1:3])
                # Rows double from 1 node; the fifth bound of run times is 4 hours.
                small = row <= 9 and column <= 4
                sums[small][place] += slowdown * values[f"cell.{row}.{column}.jobs"]
    inside, outside = (pair[0] / pair[1] if pair[1] else 1.0 for pair in (sums[True], sums[False]))
    return inside, outside

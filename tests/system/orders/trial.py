"""Is the budget kept in any order of events? A real site, all writes to its zones on record.

Each order is a site of its own: a coordinator, three agents on zones of different ranges that
are mounted through FUSE, jobs, and a budget far below the sum of their maxima. Parts of it are
stopped, killed and started again. Nodes are drained, released, removed and readmitted. Budgets
are set, announced, scheduled and cancelled, emergencies begin and end. Disks of agents are
filled (as root), at random. With --sleep, nodes are switched off and on by programs as plans and
operators decide, boots fail or are late, and the coordinator is killed during boots.
Accidents are among it: state folders are copied and used, calendars are set (with libfaketime),
counters of energy are reset, and events are stored that cannot be handled. After each write to a
zone, the sum of all limits and base powers is compared with the budget; the higher of the long-term
and the short-term limit counts (judge.py says what else).
The mean power over a second (column power) is for information, and exact to some percent: the
energy counters of the nodes are read up to 0.1 s apart.
Exit status 1 if one sample is above, 2 if a trial could not be made.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from system.orders.judge import NS_PER_S, Facts, Verdict, judge
from system.orders.nodes_site import OrdersSite, plan
from system.orders.orders import Order
from system.orders.sleeping import SleepingSite

from wattfold.coordinator.demo.site import SiteError


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one order."""

    seed: int
    events: int
    refused: int
    seconds: float
    writes: int
    verdict: Verdict
    problems: tuple[str, ...]
    did: tuple[str, ...]

    @property
    def held(self) -> bool:
        """Whether the budget was kept, and there was something to keep it for."""
        return not self.verdict.violations and not self.problems and self.verdict.samples > 0


def tried(
    seed: int,
    folder: Path,
    run: Callable[[Order], None],
    *,
    sets_calendars: bool = True,
    more: str = "",
    sleeps: bool = False,
) -> Result:
    """One order on a site of its own, with more settings of its coordinator."""
    begun_s = time.monotonic()
    if sleeps:
        site: OrdersSite = SleepingSite(folder, sets_calendars=sets_calendars, seed=seed, more=more)
    else:
        site = OrdersSite(folder, sets_calendars=sets_calendars, own=plan(more))
    with site:
        order = Order(site, seed)
        run(order)
        site.end_sampling()
        site.cancel_all()
    facts = site.facts
    refused = sum(": refused: " in text for _, text in facts.events)
    return Result(
        seed=seed,
        events=len(facts.events) - 1 - refused,
        refused=refused,
        seconds=time.monotonic() - begun_s,
        writes=site.writes(),
        verdict=judge(site.machines, list(site.samples()), facts),
        problems=tuple(order.problems),
        did=tuple(told(facts)),
    )


def told(facts: Facts) -> Iterator[str]:
    """What was done, with seconds since the first contact."""
    begin_ns = facts.events[0][0]
    for at_ns, text in facts.events:
        yield f"{(at_ns - begin_ns) / NS_PER_S:7.2f} {text}"


HEADER = (
    f"{'seed':>6} {'events':>6} {'refused':>7} {'samples':>8} {'writes':>7} "
    f"{'limits':>7} {'power':>7} {'with forgotten':>14}  above"
)


def line(result: Result) -> str:
    """A row of the table, and what was above."""
    verdict = result.verdict
    above = sum(violation.samples for violation in verdict.violations)
    text = (
        f"{result.seed:>6} {result.events:>6} {result.refused:>7} {verdict.samples:>8} "
        f"{result.writes:>7} {verdict.ratio_max:>7.3f} "
        f"{verdict.mean_ratio_max:>7.3f} {verdict.told_ratio_max:>14.3f}  {above}"
    )
    for found in verdict.violations:
        limits = " ".join(f"{limit / 1e6:g}" for limit in found.limits_uw)
        seconds = (found.until_ns - found.from_ns) / NS_PER_S
        text += (
            f"\n  ABOVE {found.sum_uw / 1e6:g} W of {found.budget_uw / 1e6:g} W, {seconds:.2f} s,"
            f" {found.samples} samples; limits (W): {limits}"
        )
        text += "".join(f"\n    {event}" for event in found.before)
    return text + "".join(f"\n  WRONG {problem}" for problem in result.problems)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="trial_budget",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--orders", type=int, default=10, metavar="N", help="default 10")
    parser.add_argument("--seed", type=int, default=1, help="of the first order (default 1)")
    parser.add_argument("--events", type=int, default=24, help="of each order (default 24)")
    parser.add_argument("--seconds", type=float, help="begin no order after so long")
    for limit in ("--rise-limit", "--fall-limit"):
        parser.add_argument(limit, type=float, metavar="W_PER_S", help="of the coordinator")
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="keep logs and samples there")
    parser.add_argument(
        "--sleep",
        action="store_true",
        help="nodes sleep as plans and operators decide; boots fail or are late",
    )
    parser.add_argument("--verbose", action="store_true", help="print the events of each order")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")
    return parser.parse_args()


def results(given: argparse.Namespace, logs: Path) -> Iterator[Result]:
    """One order after another, until there are enough or the time is up."""
    begun_s = time.monotonic()
    for seed in range(given.seed, given.seed + given.orders):
        if given.seconds and time.monotonic() - begun_s > given.seconds:
            return
        folder = logs / f"seed-{seed}"
        yield tried(
            seed,
            folder,
            lambda order: order.run(given.events),
            more=_ramp(given),
            sleeps=given.sleep,
        )


def _ramp(given: argparse.Namespace) -> str:
    rates = {"rise_w_per_s": given.rise_limit, "fall_w_per_s": given.fall_limit}
    lines = [f"{key} = {rate}" for key, rate in rates.items() if rate]
    return "\n".join(["[budget]", *lines, ""]) if lines else ""


def main() -> int:
    given = options()
    # Else what was started would outlive a trial that is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    found: list[Result] = []
    print(HEADER)
    try:
        with tempfile.TemporaryDirectory(prefix="wf-orders-") as place:
            for result in results(given, given.logs or Path(place)):
                found.append(result)
                print(line(result), flush=True)
                if given.verbose:
                    print("\n".join(result.did), flush=True)
    except SiteError as error:
        print(f"trial_budget: {error}", file=sys.stderr)
        return 2
    if given.json is not None:
        report = {"cores": os.cpu_count(), "orders": [asdict(result) for result in found]}
        given.json.write_text(json.dumps(report, indent=2) + "\n")
    held = sum(result.held for result in found)
    samples = sum(result.verdict.samples for result in found)
    greatest = max((result.verdict.ratio_max for result in found), default=0.0)
    print(
        f"trial_budget: {held} of {len(found)} orders within the budget at every sample; "
        f"{samples} samples, greatest sum / budget {greatest:.4f}"
    )
    return 0 if found and held == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())

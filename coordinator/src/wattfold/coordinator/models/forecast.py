"""Prediction of run times from similar earlier runs, better than the users' requests.

Users request far more time than their jobs need, because jobs are ended after the requested time.
Two predictors learn from every completed run:

* **last two** (D. Tsafrir, Y. Etsion, D. G. Feitelson: Backfilling Using System-Generated
  Predictions Rather than User Runtime Estimates. IEEE TPDS 18(6), 2007): the mean of the last two
  runs of the same user and application, or else of the same user.
* **regression** (after E. Gaussier, D. Glesser, V. Reis, D. Trystram: Improving Backfilling by
  Using Machine Learning to Predict Running Times. SC15): a linear model of logarithms, learnt
  online. Its loss is asymmetric. A prediction that is too long denies nodes to other jobs. It
  weighs more than a prediction that is too short, which is corrected during the run.

What is known at submission (`SimilarRuns`) is stored with the job, so that learning at its end uses
the same input. A job that exceeds its prediction gets more time in steps (`grown_ns`). No
prediction exceeds the user's request. Times are integer nanoseconds, 0 = unknown. The result
depends only on the runs and their order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

METHODS = ("user", "last-two", "regression")
"""Sources of run times for plans: the user's request, or a prediction."""
USER, LAST_TWO, REGRESSION = METHODS

LEAST_NS = 1_000_000_000
_MINUTE_NS = 60_000_000_000
STEPS_NS = tuple(_MINUTE_NS * m for m in (1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000))
"""Successive extensions of a job that exceeds its prediction, by Tsafrir et al."""
WRONG = 2
"""Beyond this multiple of its prediction, the user's request replaces the prediction."""
ENTRIES_MAX = 10_000
"""Maximum number of remembered users, and of pairs of user and application; the latest stay."""

OVER = 3.0
"""Weight of a prediction that was too long, relative to a prediction that was too short."""
RATE = 0.03
USUAL_OF = 8
"""Number of runs in the usual run time, a moving mean."""
FEATURES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The request of a submission. ``time_ns`` 0: the user gives no time."""

    user: str
    app: str
    size: int
    time_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarRuns:
    """Run times of similar jobs at the submission of a job.

    ``alike``: they had the same application, and not only the same user.
    """

    last_ns: int = 0
    before_ns: int = 0
    usual_ns: int = 0
    alike: bool = False
    regression_ns: int = 0


NOTHING_KNOWN = SimilarRuns()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    """Last runs of a user or a pair: the last run, the previous run, and the usual run time."""

    last_ns: int
    before_ns: int = 0
    usual_ns: int

    def then(self, run_ns: int, count: int = USUAL_OF) -> Recent:
        """Return the values after another run."""
        nearer_ns = (run_ns - self.usual_ns) // count
        return Recent(
            last_ns=run_ns, before_ns=self.last_ns, usual_ns=max(self.usual_ns + nearer_ns, 1)
        )


@dataclass(slots=True, kw_only=True)
class Weights:
    """State of the regression: weights of the features, and sums of squares for its steps."""

    weights: list[float] = field(default_factory=lambda: [0.0] * FEATURES)
    squares: list[float] = field(default_factory=lambda: [0.0] * FEATURES)
    runs: int = 0


@dataclass(slots=True, kw_only=True)
class RunHistory:
    """All data for predictions."""

    users: dict[str, Recent] = field(default_factory=dict)
    apps: dict[str, Recent] = field(default_factory=dict)
    """Runs by user and application."""
    regression: Weights = field(default_factory=Weights)

    def known(self, asked: Asked) -> SimilarRuns:
        """Return what is known about a job that is submitted now."""
        own = self.apps.get(_key(asked))
        recent = own or self.users.get(asked.user)
        if recent is None:
            known = NOTHING_KNOWN
        else:
            known = SimilarRuns(
                last_ns=recent.last_ns,
                before_ns=recent.before_ns,
                usual_ns=recent.usual_ns,
                alike=own is not None,
            )
        if not self.regression.runs or not (known.last_ns or asked.time_ns):
            return known
        said = _dot(self.regression.weights, _features(asked, known)) + _anchor(asked, known)
        regression_ns = round(math.exp(min(said, 40.0)) * 1e9)
        return SimilarRuns(
            last_ns=known.last_ns,
            before_ns=known.before_ns,
            usual_ns=known.usual_ns,
            alike=known.alike,
            regression_ns=_within(regression_ns, asked.time_ns),
        )

    def learn(self, asked: Asked, known: SimilarRuns, run_ns: int) -> None:
        """Learn from a run that ended by itself or at its limit.

        ``known`` is the knowledge at the submission of the job.
        """
        run_ns = max(run_ns, LEAST_NS)
        self._fit(asked, known, run_ns)
        _note(self.apps, _key(asked), run_ns)
        _note(self.users, asked.user, run_ns)

    def _fit(self, asked: Asked, known: SimilarRuns, run_ns: int) -> None:
        """Do one step of AdaGrad on the asymmetric squared loss."""
        if not (known.last_ns or asked.time_ns):
            return
        model, features = self.regression, _features(asked, known)
        said = _dot(model.weights, features) + _anchor(asked, known)
        missed = max(min(math.log(run_ns / 1e9) - said, 3.0), -3.0)
        slope = missed * (OVER if missed < 0 else 1.0)
        for at, feature in enumerate(features):
            step = slope * feature
            model.squares[at] += step * step
            if model.squares[at] > 0.0:
                model.weights[at] += RATE * step / math.sqrt(model.squares[at])
        model.runs += 1


def predicted_ns(method: str, known: SimilarRuns, time_ns: int) -> int:
    """Return the assumed run time of a job at its start; without knowledge the user's request.

    ``method`` is one of `METHODS`. The result never exceeds the user's request, if there is one.
    """
    if method == LAST_TWO and known.last_ns:
        runs = (known.last_ns, known.before_ns) if known.before_ns else (known.last_ns,)
        return _within(sum(runs) // len(runs), time_ns)
    if method == REGRESSION and known.regression_ns:
        return _within(known.regression_ns, time_ns)
    return time_ns


def grown_ns(predicted: int, spent: int, time_ns: int) -> int:
    """Return the assumed total run time of a job that has run for ``spent``.

    It is the prediction. Once the job has run that long, it grows in steps. Beyond twice the
    prediction it is the user's request, which it never exceeds.
    """
    planned = predicted
    if not planned:
        return time_ns
    step = 0
    while planned <= spent and not (time_ns and planned >= time_ns):
        planned += STEPS_NS[min(step, len(STEPS_NS) - 1)]
        step += 1
        if planned > WRONG * predicted:
            planned = max(planned, time_ns)
    return min(planned, time_ns) if time_ns else planned


def lasting_ns(planned: int, spent: int, estimate_ns: int, limit_ns: int) -> int:
    """Return the assumed total run time of a job that has run for ``spent``.

    A prediction grows up to the user's estimate. For a job that has run longer than the estimate,
    it grows from the estimate up to the time limit. 0 = there is no estimate, or no limit.
    """
    if 0 < estimate_ns <= spent:
        return grown_ns(max(planned, estimate_ns), spent, limit_ns)
    return grown_ns(planned, spent, estimate_ns or limit_ns)


def _within(run_ns: int, time_ns: int) -> int:
    least = max(run_ns, LEAST_NS)
    return min(least, time_ns) if time_ns else least


def _key(asked: Asked) -> str:
    return f"{asked.user} {asked.app}"


def _note(entries: dict[str, Recent], key: str, run_ns: int) -> None:
    before = entries.pop(key, None)
    if before is None and len(entries) >= ENTRIES_MAX:
        del entries[next(iter(entries))]
    entries[key] = before.then(run_ns) if before else Recent(last_ns=run_ns, usual_ns=run_ns)


def _anchor(asked: Asked, known: SimilarRuns) -> float:
    """Return the offset of the regression: the last run, or the user's request if that is less."""
    said = math.log(max(asked.time_ns, LEAST_NS) / 1e9)
    if not known.last_ns:
        return said
    seen = _log_s(known.last_ns)
    return seen if not asked.time_ns else min(seen, said)


def _features(asked: Asked, known: SimilarRuns) -> Sequence[float]:
    """Return logarithmic features, which differ little between jobs of seconds and of days."""
    said = _log_s(asked.time_ns) if asked.time_ns else 0.0
    last = _log_s(known.last_ns) if known.last_ns else said
    before = _log_s(known.before_ns) if known.before_ns else last
    usual = _log_s(known.usual_ns) if known.usual_ns else last
    said = said or last
    return (
        1.0,
        1.0 if known.last_ns else 0.0,
        1.0 if known.alike else 0.0,
        (said - last) / 4.0,
        (before - last) / 4.0,
        (usual - last) / 4.0,
        said / 10.0,
        math.log(max(asked.size, 1)) / 10.0,
    )


def _log_s(time_ns: int) -> float:
    return math.log(max(time_ns, LEAST_NS) / 1e9)


def _dot(weights: Sequence[float], features: Sequence[float]) -> float:
    return sum(w * f for w, f in zip(weights, features, strict=True))

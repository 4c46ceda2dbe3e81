"""How long a job will run, by what runs like it took: better than what its user asked for.

Users ask for far more than their jobs take, since what they ask for is also when the job is ended.
Two predictors learn from every run that ends:

* **last two** (D. Tsafrir, Y. Etsion, D. G. Feitelson: Backfilling Using System-Generated
  Predictions Rather than User Runtime Estimates. IEEE TPDS 18(6), 2007): the mean of the last two
  runs of the same user and application; while there is none, of the same user.
* **regression** (after E. Gaussier, D. Glesser, V. Reis, D. Trystram: Improving Backfilling by
  Using Machine Learning to Predict Running Times. SC15): a linear model of logarithms, learnt
  online. Its loss is not symmetric: a prediction that is too long keeps others from the nodes, and
  weighs more than one that the run exceeds, which is mended as the run goes on.

What is known is taken when a job is submitted (`Known`) and stays with it, so that what is learnt
at its end is learnt of just that. A job that runs on past its prediction is given more in steps
(`grown_ns`). No prediction goes beyond what the user asked for. Times are whole nanoseconds, 0
where there is none. Everything follows from the runs and their order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

METHODS = ("user", "last-two", "regression")
"""How plans take run times: by the user's word, or by a prediction."""
USER, LAST_TWO, REGRESSION = METHODS

LEAST_NS = 1_000_000_000
_MINUTE_NS = 60_000_000_000
STEPS_NS = tuple(_MINUTE_NS * m for m in (1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000))
"""What a job that exceeds its prediction is given, one after the other, by Tsafrir et al."""
WRONG = 2
"""A prediction says no more of a job that is given so many times as much: its user's word does."""
ENTRIES_MAX = 10_000
"""Users, and as many pairs of user and application, that are remembered; those seen last."""

OVER = 3.0
"""How much more a prediction that was too long weighs than one that was too short."""
RATE = 0.03
USUAL_OF = 8
"""What is usual is the mean of about so many runs."""
FEATURES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a submission says. ``time_ns`` 0: its user does not say how long it takes."""

    user: str
    app: str
    size: int
    time_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What runs like a job had shown when it was submitted.

    ``alike``: they were of its application too, and not only of its user.
    """

    last_ns: int = 0
    before_ns: int = 0
    usual_ns: int = 0
    alike: bool = False
    regression_ns: int = 0


NOTHING_KNOWN = Known()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    """The last runs of somebody: the last, the one before it, and what is usual."""

    last_ns: int
    before_ns: int = 0
    usual_ns: int

    def then(self, run_ns: int, count: int = USUAL_OF) -> Recent:
        """After one more run."""
        nearer_ns = (run_ns - self.usual_ns) // count
        return Recent(
            last_ns=run_ns, before_ns=self.last_ns, usual_ns=max(self.usual_ns + nearer_ns, 1)
        )


@dataclass(slots=True, kw_only=True)
class Weights:
    """The regression: weights of the features, and the sums of squares that its steps go by."""

    weights: list[float] = field(default_factory=lambda: [0.0] * FEATURES)
    squares: list[float] = field(default_factory=lambda: [0.0] * FEATURES)
    runs: int = 0


@dataclass(slots=True, kw_only=True)
class RunHistory:
    """All that predictions are made of."""

    users: dict[str, Recent] = field(default_factory=dict)
    apps: dict[str, Recent] = field(default_factory=dict)
    """By user and application."""
    regression: Weights = field(default_factory=Weights)

    def known(self, asked: Asked) -> Known:
        """What there is to know of a job that is submitted now."""
        own = self.apps.get(_key(asked))
        recent = own or self.users.get(asked.user)
        if recent is None:
            known = NOTHING_KNOWN
        else:
            known = Known(
                last_ns=recent.last_ns,
                before_ns=recent.before_ns,
                usual_ns=recent.usual_ns,
                alike=own is not None,
            )
        if not self.regression.runs or not (known.last_ns or asked.time_ns):
            return known
        said = _dot(self.regression.weights, _features(asked, known)) + _anchor(asked, known)
        regression_ns = round(math.exp(min(said, 40.0)) * 1e9)
        return Known(
            last_ns=known.last_ns,
            before_ns=known.before_ns,
            usual_ns=known.usual_ns,
            alike=known.alike,
            regression_ns=_within(regression_ns, asked.time_ns),
        )

    def learn(self, asked: Asked, known: Known, run_ns: int) -> None:
        """A job has ended by itself or at its limit after so long, of which this was known."""
        run_ns = max(run_ns, LEAST_NS)
        self._fit(asked, known, run_ns)
        _note(self.apps, _key(asked), run_ns)
        _note(self.users, asked.user, run_ns)

    def _fit(self, asked: Asked, known: Known, run_ns: int) -> None:
        """One step of AdaGrad down the asymmetric squared loss."""
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


def predicted_ns(method: str, known: Known, time_ns: int) -> int:
    """How long a job is taken to run when it starts; its user's word where nothing is known.

    ``method`` is one of `METHODS`. Never beyond the user's word, where there is one.
    """
    if method == LAST_TWO and known.last_ns:
        runs = (known.last_ns, known.before_ns) if known.before_ns else (known.last_ns,)
        return _within(sum(runs) // len(runs), time_ns)
    if method == REGRESSION and known.regression_ns:
        return _within(known.regression_ns, time_ns)
    return time_ns


def grown_ns(predicted: int, spent: int, time_ns: int) -> int:
    """What a job that has run for ``spent`` is taken to run in all.

    Its prediction, and once it has run for that, more by one step after the other; beyond twice
    its prediction what its user asked for, and never more.
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


def _anchor(asked: Asked, known: Known) -> float:
    """Where the regression starts from: half way from the last runs to the user's word."""
    said = math.log(max(asked.time_ns, LEAST_NS) / 1e9)
    if not known.last_ns:
        return said
    seen = _log_s(known.last_ns)
    return seen if not asked.time_ns else min(seen, said)


def _features(asked: Asked, known: Known) -> Sequence[float]:
    """Logarithms that differ little between a job of seconds and one of days."""
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

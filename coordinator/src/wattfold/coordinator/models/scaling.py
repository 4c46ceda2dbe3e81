"""Strong scaling of a job: its run time on n units, after Downey as adjusted by PARM (Eq. 9-11).

The adjustment makes ``t(1) = T1`` and ``t(n) = T1/A`` from ``n = 2A - 1`` on. The three pieces
meet: at ``n = A`` both 9 and 10 give ``T1/A + T1 sigma/(2A) - T1 sigma/(2A²)``, at ``n = 2A - 1``
both 10 and 11 give ``T1/A``. The paper states Eq. 9 for ``1 < n``; its limit at 1 is T1, so it is
used there too. For sigma in [0, 1] and A of at least 1 no piece rises, so more units never slow a
job down in this model. The cost of a resize is modelled elsewhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def scaled_time_s(t1_s: float, average_parallelism: float, sigma: float, n: float) -> float:
    """Return the run time on n units, in the unit of ``t1_s``; bitwise equal to `scaled_times_s`.

    Raises ValueError outside the model's domain.
    """
    a = average_parallelism
    check_scaling(t1_s, a, sigma)
    if not n >= 1:
        raise ValueError(f"a size must be at least 1, got {n}")
    rough = t1_s * sigma / (2.0 * a)
    if n <= a:
        return (t1_s - rough) / n + rough
    if n <= 2 * a - 1:
        return sigma * (t1_s - t1_s / (2.0 * a)) / n + t1_s / a - rough
    return t1_s / a


def check_scaling(t1_s: float, average_parallelism: float, sigma: float) -> None:
    """Raise ValueError unless A >= 1, 0 <= sigma <= 1 and T1 > 0."""
    if not (t1_s > 0 and average_parallelism >= 1 and 0 <= sigma <= 1):
        raise ValueError(
            f"scaling needs T1 > 0, A >= 1, sigma in [0, 1]; got T1={t1_s}, "
            f"A={average_parallelism}, sigma={sigma}"
        )


def scaled_times_s(
    t1_s: float | Floats, average_parallelism: float, sigma: float, sizes: ArrayLike
) -> Floats:
    """Return `scaled_time_s` for an array of sizes, and for several T1 of shape (jobs, 1).

    Raises:
        ValueError: unless every size >= 1, A >= 1, 0 <= sigma <= 1 and T1 > 0.
    """
    n = np.asarray(sizes, dtype=np.float64)
    a = average_parallelism
    check_scaling(t1_s if isinstance(t1_s, float) else float(np.min(t1_s)), a, sigma)
    if n.size and not np.min(n) >= 1:
        raise ValueError(f"a size must be at least 1, got {np.min(n)}")
    rough = t1_s * sigma / (2.0 * a)
    up_to_a = (t1_s - rough) / n + rough
    up_to_saturation = sigma * (t1_s - t1_s / (2.0 * a)) / n + t1_s / a - rough
    times: Floats = np.where(n <= a, up_to_a, np.where(n <= 2 * a - 1, up_to_saturation, t1_s / a))
    return times

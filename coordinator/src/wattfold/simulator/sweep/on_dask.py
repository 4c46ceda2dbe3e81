"""Backend that runs cases on a Dask cluster.

Its workers need this package, and files at the same paths. `distributed` is an optional dependency
(extra ``dask``) and imported only here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from wattfold.simulator.sweep.case import Case, FailedCase, Measure, Outcome
from wattfold.simulator.sweep.worker import outcome_of

CONNECT_S = 10.0


class DaskUnavailableError(Exception):
    """`distributed` is missing, or no scheduler answers at the address; one line for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaskCluster:
    """Cluster of a scheduler, by its address (tcp://host:8786)."""

    address: str
    width: int = 0
    """Number of cases that run at one time; 0 = unknown."""

    def outcomes(self, measure: Measure, cases: Sequence[Case]) -> Iterator[tuple[int, Outcome]]:
        """Yield the position and outcome of every case, as they end.

        Cases that have not run when the iterator is closed are cancelled. Raises
        DaskUnavailableError.
        """
        client = _client(self.address)
        try:
            from distributed import as_completed

            futures = {
                client.submit(outcome_of, measure, case, pure=False): position
                for position, case in enumerate(cases)
            }
            try:
                with client.as_current():
                    ended = as_completed(list(futures))
                for future in ended:
                    yield futures.pop(future), _outcome(future)
            finally:
                client.cancel(list(futures))
        finally:
            client.close()


def _outcome(future: Any) -> Outcome:
    if future.status == "finished":
        outcome: Outcome = future.result()
        return outcome
    error = future.exception() if future.status == "error" else None
    return FailedCase(
        reason=f"{type(error).__name__}: {error}" if error else f"task {future.status}"
    )


def _client(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise DaskUnavailableError(
            "running on Dask needs the package distributed; install wattfold[dask]"
        ) from error
    try:
        return Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise DaskUnavailableError(f"no Dask scheduler at {address}: {error}") from error

"""Description of a metric for Prometheus, as the catalogues of coordinator and agent list them.

Names follow the conventions of Prometheus: base units, and `_total` for counters. Each label has
few possible values. `scripts/gen_docs` reads the catalogues as text: all arguments are literals.
"""

from __future__ import annotations

from dataclasses import dataclass

GAUGE, COUNTER, HISTOGRAM, INFO = "gauge", "counter", "histogram", "info"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric. The name of a counter lacks `_total`, and the name of an info lacks `_info`."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()

    @property
    def exposed(self) -> str:
        """The name in the text format."""
        return self.name + {COUNTER: "_total", INFO: "_info"}.get(self.kind, "")

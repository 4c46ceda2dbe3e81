"""Metrics as Prometheus reads them."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from wattfold.coordinator.adapters.metrics.exposition import ScrapeInputs, render
from wattfold.coordinator.adapters.metrics.meters import Figures
from wattfold.coordinator.core.state.state import State

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parsed(text: bytes) -> Samples:
    """Return the value of each series by its name and its sorted labels."""
    found: Samples = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, f"{key} twice"
            found[key] = sample.value
    return found


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, tuple(sorted(labels.items()))]


def total(samples: Samples, name: str) -> float:
    return sum(value for (found, _), value in samples.items() if found == name)


def view(
    state: State, now_ns: int, figures: Figures | None = None, measured_uw: int = 0
) -> ScrapeInputs:
    return ScrapeInputs(
        state=state,
        now_ns=now_ns,
        policy="test",
        measured_uw=measured_uw,
        measured_peak_uw=measured_uw,
        figures=figures or Figures(),
    )


def scraped(state: State, now_ns: int, figures: Figures | None = None) -> Samples:
    return parsed(render(view(state, now_ns, figures)))

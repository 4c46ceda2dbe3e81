"""Alerts and dashboard use existing metrics only, and promtool accepts them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wattfold.contract.metric import HISTOGRAM
from wattfold.coordinator.adapters.metrics.catalogue import CATALOGUE as OF_COORDINATOR
from wattfold.nodeagent.adapters.metrics.catalogue import CATALOGUE as OF_AGENT

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "packaging" / "metrics"
DASHBOARD = json.loads((FOLDER / "wattfold-dashboard.json").read_text(encoding="utf-8"))
SERIES = {
    metric.exposed + suffix: {*metric.labels, *(["le"] if suffix == "_bucket" else [])}
    for metric in (*OF_COORDINATOR, *OF_AGENT)
    for suffix in (("_bucket", "_count", "_sum") if metric.kind == HISTOGRAM else ("",))
}
OF_PROMETHEUS = {"instance", "job"}


def expressions() -> Iterator[str]:
    """All queries of the dashboard, and those of its variables."""
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def rules() -> list[str]:
    text = (FOLDER / "wattfold.rules.yml").read_text(encoding="utf-8")
    return re.findall(r"^ +expr: (.+)$", text, re.M)


QUERIES = [*expressions(), *rules()]


@pytest.mark.parametrize("query", QUERIES)
def test_queries_name_existing_series_and_labels(query: str) -> None:
    names = re.findall(r"\bwattfold_\w+", query)
    assert names or query.startswith("up{")
    unknown = set(names) - SERIES.keys()
    assert not unknown
    for name, selector in re.findall(r"\b(wattfold_\w+)\{([^}]*)\}", query):
        labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector))
        assert labels <= SERIES[name] | OF_PROMETHEUS, name
    grouped = {label for by in re.findall(r"\bby \(([^)]*)\)", query) for label in by.split(", ")}
    assert grouped <= OF_PROMETHEUS.union(*(SERIES[name] for name in names))


def test_legends_name_labels_of_their_series() -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            names = re.findall(r"\bwattfold_\w+", target["expr"])
            shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert shown <= set[str]().union(*(SERIES[name] for name in names)), panel["title"]


def test_every_metric_but_descriptions_is_on_the_dashboard_or_in_a_rule() -> None:
    used = " ".join(QUERIES)
    unused = {
        metric.name
        for metric in (*OF_COORDINATOR, *OF_AGENT)
        if not re.search(rf"\b{metric.name}(_total|_bucket|_count|_info)?\b", used)
    }
    assert unused == {
        "wattfold_build",
        "wattfold_policy",
        "wattfold_committed_power_peak_watts",
        "wattfold_measured_power_peak_watts",
        "wattfold_floor_watts",
        "wattfold_budget_breaches",
        "wattfold_leases",
        "wattfold_node_duties",
        "wattfold_jobs_submitted",
        "wattfold_agent_build",
        "wattfold_zone_floor_watts",
        "wattfold_node_base_power_watts",
        "wattfold_node_emulated",
        "wattfold_node_lease_remaining_seconds",
        "wattfold_node_at_floor",
        "wattfold_node_left",
        "wattfold_node_foreign_settings",
        "wattfold_node_caps_not_held",
        "wattfold_node_running_jobs",
        "wattfold_node_start_fault",
    }


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at: dict[str, Any] = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def promtool(*arguments: str | Path) -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool (package prometheus)")
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, timeout=120, check=False, cwd=FOLDER
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_accepts_the_rules_and_every_alert_fires_and_rests() -> None:
    assert f"{len(rules())} rules found" in promtool("check", "rules", "wattfold.rules.yml")
    promtool("test", "rules", "wattfold.rules.test.yml")
    tests = (FOLDER / "wattfold.rules.test.yml").read_text(encoding="utf-8")
    alerts = re.findall(r"alert: (\w+)", (FOLDER / "wattfold.rules.yml").read_text("utf-8"))
    for alert in alerts:
        assert len(re.findall(rf"alertname: {alert}\b", tests)) == 2


def test_promtool_accepts_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    queries = [q for q in expressions() if not q.startswith("label_values(")]
    groups = [
        {
            "name": "dashboard",
            "rules": [
                {"record": f"query:{index}", "expr": query.replace("$__rate_interval", "5m")}
                for index, query in enumerate(queries)
            ],
        }
    ]
    # JSON is YAML.
    file = tmp_path / "queries.yml"
    file.write_text(json.dumps({"groups": groups}), encoding="utf-8")
    promtool("check", "rules", file)

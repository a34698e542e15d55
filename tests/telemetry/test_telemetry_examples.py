"""The dashboard and the alerts ask for metrics that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path

from triptych_server.telemetry.metrics import FIGURES, METRICS

FOLDER = Path(__file__).parents[2] / "examples" / "observability"


def exposed() -> set[str]:
    names = {"triptych_store_readable"}
    for metric in METRICS:
        if metric.kind == "histogram":
            names |= {f"{metric.prometheus_name}_{part}" for part in ("bucket", "sum", "count")}
        else:
            names.add(metric.prometheus_name + ("_total" if metric.kind == "counter" else ""))
    return names | {each.name + ("_total" if each.is_counter else "") for each in FIGURES}


def test_the_dashboard_and_the_alerts_ask_for_metrics_that_there_are() -> None:
    dashboard = (FOLDER / "grafana/dashboards/triptych.json").read_text(encoding="utf-8")
    panels = json.loads(dashboard)["panels"]
    asked = [each["expr"] for panel in panels for each in panel.get("targets", ())]
    assert len(asked) > 20
    alerts = (FOLDER / "alerts.yml").read_text(encoding="utf-8")
    for text in (*asked, alerts):
        names = set(re.findall(r"\btriptych_\w+", text))
        assert names <= exposed(), names - exposed()
    # What the dashboard is for: lanes and stages, staleness, what is pending, models.
    shown = " ".join(asked)
    for name in ("lane", "stage", "stale", "pending", "under_way", "cache", "tokens", "cost"):
        assert name in shown

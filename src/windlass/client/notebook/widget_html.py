"""HTML of the run widget: state, metrics, children and the end of the log.

All texts from servers and scripts are escaped. Colours come from the notebook's theme, light or dark; those of the
state and of the lines in charts are readable on both.
"""

from __future__ import annotations

import math
from datetime import datetime
from html import escape as escape_html
from typing import Any, Dict, Iterator, List, Tuple

from windlass.client.notebook.html import link, reason
from windlass.client.notebook.live_run import LiveRun
from windlass.client.notebook.metric_chart import COLOURS, draw
from windlass.client.notebook.metric_chart import shown as number
from windlass.client.notebook.metric_series import Metric, Series
from windlass.core.sanitize import escape

_MOST_CHARTS = 24
_MOST_LINES = len(COLOURS)
_MOST_VALUES = 60
_LONGEST_TEXT = 200
_STATE_COLOURS = {"Completed": "#1a7f37", "Failed": "#cf222e", "NotResponding": "#cf222e", "Canceled": "#6e7781"}
_BUSY = "#0969da"

_STYLE = """
.windlass-run{font:13px/1.45 system-ui,sans-serif;color:inherit;padding:2px 0;max-width:1120px}
.windlass-run a{color:inherit;text-decoration:underline}
.windlass-run .wl-head{display:flex;flex-wrap:wrap;gap:4px 10px;align-items:baseline}
.windlass-run .wl-name{font-size:15px;font-weight:600;overflow-wrap:anywhere}
.windlass-run .wl-state{color:#fff;border-radius:9px;padding:0 8px;font-weight:600;font-size:12px}
.windlass-run .wl-dim{opacity:.75}
.windlass-run .wl-charts{display:flex;flex-wrap:wrap;gap:12px 20px;margin:8px 0}
.windlass-run figure.wl-chart{margin:0;width:300px;max-width:100%}
.windlass-run figcaption{display:flex;justify-content:space-between;gap:8px;overflow-wrap:anywhere}
.windlass-run .wl-legend{display:flex;flex-wrap:wrap;gap:0 10px;font-size:11px}
.windlass-run pre.wl-log{background:#8881;color:inherit;padding:8px;margin:0;border-radius:4px;flex:none;
overflow:visible;white-space:pre-wrap;overflow-wrap:anywhere;font:12px/1.4 ui-monospace,monospace}
.windlass-run pre.wl-reason{background:none;color:inherit;margin:4px 0;padding:0;white-space:pre-wrap;
overflow-wrap:anywhere;font:inherit}
.windlass-run table.wl-table{border-collapse:collapse;margin:6px 0;font-size:12px;color:inherit;width:auto;float:none}
.windlass-run table.wl-table tr{background:none}
.windlass-run table.wl-table th,.windlass-run table.wl-table td{text-align:left;padding:2px 14px 2px 0;border:0;
border-bottom:1px solid #8884;background:none;color:inherit;white-space:normal;max-width:none;vertical-align:top}
.windlass-run table.wl-table .wl-number{text-align:right;font-variant-numeric:tabular-nums}
.windlass-run .wl-log-box{display:flex;flex-direction:column-reverse;max-height:260px;overflow:auto;
scrollbar-color:#8888 transparent}
"""


def render(run: LiveRun, is_live: bool) -> str:
    """The whole widget. `is_live`: whether it is updated in place."""
    parts = [_head(run.view), _reason(run.view), _facts(run.view), _metrics(run.metrics), _children(run), _log(run)]
    body = "".join(part for part in parts if part)
    return f'<div class="windlass-run"><style>{_STYLE}</style>{body}{_foot(run, is_live)}</div>'


def _text(value: Any) -> str:
    whole = str(value)
    return escape_html(escape(whole if len(whole) <= _LONGEST_TEXT else whole[: _LONGEST_TEXT - 1] + "…"))


def _head(view: Dict[str, Any]) -> str:
    name = link(str(view["url"]), escape(view["name"] or view["id"]))
    other = f'<span class="wl-dim">{_text(view["id"])}</span>' if view["name"] else ""
    return (
        f'<div class="wl-head"><span class="wl-name">{name}</span>{_state(view)}'
        f'<span class="wl-dim">{_duration(view)}</span>{other}</div>'
    )


def _state(view: Dict[str, Any]) -> str:
    colour = _STATE_COLOURS.get(view["status"], _BUSY)
    return f'<span class="wl-state" style="background:{colour}">{_text(view["status"])}</span>'


def _reason(view: Dict[str, Any]) -> str:
    text = "\n".join(escape_html(escape(line)) for line in reason(view).splitlines())
    return f'<pre class="wl-reason">{text}</pre>' if text else ""


def _facts(view: Dict[str, Any]) -> str:
    spec = view.get("spec") or {}
    script = " ".join(str(part) for part in (spec.get("script"), *(spec.get("arguments") or ())) if part)
    facts = {"Experiment": view["experiment"], "Target": view["target"], "Script": script}
    tags = ", ".join(key if value is None else f"{key}={value}" for key, value in view["tags"].items())
    shown_facts = [f"{name}: {_text(value)}" for name, value in {**facts, "Tags": tags}.items() if value]
    return f'<div class="wl-dim">{" · ".join(shown_facts)}</div>'


def _duration(view: Dict[str, Any]) -> str:
    """The duration of an ended run; "" for others."""
    if not view["started_at"] or not view["ended_at"]:
        return ""
    seconds = int(max(0.0, (_time(view["ended_at"]) - _time(view["started_at"])).total_seconds()))
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds % 60} s" if minutes else f"{seconds} s"


def _time(text: str) -> datetime:
    return datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")


def _metrics(metrics: Dict[str, Metric]) -> str:
    drawn = [(name, metric) for name, metric in metrics.items() if metric.is_drawn]
    values = [row for name, metric in metrics.items() if not metric.is_drawn for row in _values(name, metric)]
    charts = "".join(_chart(name, metric) for name, metric in drawn[:_MOST_CHARTS])
    found = f'<div class="wl-charts">{charts}</div>' if charts else ""
    if values:
        found += _table([("Metric", ""), ("Value", "wl-number")], values[:_MOST_VALUES])
    left_out = len(drawn[_MOST_CHARTS:]) + len(values[_MOST_VALUES:])
    return found + (f'<div class="wl-dim">{left_out} more metrics are on the run\'s page.</div>' if left_out else "")


def _values(name: str, metric: Metric) -> Iterator[List[str]]:
    found = {column: number(series.last) for column, series in metric.columns.items()}
    for column, value in {**found, **metric.texts}.items():
        yield [_text(f"{name}.{column}" if column else name), _text(value)]


def _chart(name: str, metric: Metric) -> str:
    columns = list(metric.columns.items())[:_MOST_LINES]
    last = ", ".join(number(series.last) for _, series in columns) if len(columns) == 1 else ""
    said = f"{escape(name)}: {columns[0][1].count} values{', the last is ' + last if last else ''}"
    caption = f'<figcaption><b>{_text(name)}</b><span class="wl-dim">{last}</span></figcaption>'
    return f'<figure class="wl-chart">{caption}{draw(said, columns)}{_legend(columns)}</figure>'


def _legend(columns: List[Tuple[str, Series]]) -> str:
    """The colours of several series, and the values that a line cannot show."""
    entries = [
        f'<span><span style="color:{COLOURS[at]}">■</span> {_text(column)} {number(series.last)}</span>'
        for at, (column, series) in enumerate(columns)
        if len(columns) > 1
    ]
    odd = {str(y) for _, series in columns for _, y in series.points if not math.isfinite(y)}
    if odd:
        entries.append(f'<span class="wl-dim">includes {", ".join(sorted(odd))}</span>')
    return f'<div class="wl-legend">{"".join(entries)}</div>' if entries else ""


def _children(run: LiveRun) -> str:
    if not run.children:
        return ""
    rows = [
        [link(str(child["url"]), escape(child["name"] or child["id"])), _state(child), _duration(child)]
        for child in run.children
    ]
    more = '<div class="wl-dim">More child runs are on the run\'s page.</div>' if run.has_more_children else ""
    return _table([("Child run", ""), ("Status", ""), ("Duration", "wl-number")], rows) + more


def _table(columns: List[Tuple[str, str]], rows: List[List[str]]) -> str:
    """A table of cells that are HTML already; a column is its heading and its class."""
    head = "".join(f'<th class="{kind}">{escape_html(name)}</th>' for name, kind in columns)
    body = "".join(
        "<tr>" + "".join(f'<td class="{kind}">{cell}</td>' for (_, kind), cell in zip(columns, row)) + "</tr>"
        for row in rows
    )
    return f'<table class="wl-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _log(run: LiveRun) -> str:
    text = run.log.text()
    if not text:
        return ""
    # column-reverse keeps the box scrolled to its end without a script.
    box = f'<div class="wl-log-box"><pre class="wl-log">{escape_html(text)}</pre></div>'
    return f'<div class="wl-dim">{_text(run.log.path)}, the last lines</div>{box}'


def _foot(run: LiveRun, is_live: bool) -> str:
    moment = run.changed_at.strftime("%Y-%m-%d %H:%M:%S UTC")
    way = "" if run.is_final or not is_live else "; updated while this kernel runs"
    note = f"<div>{_text(run.note)}</div>" if run.note else ""
    return f'{note}<div class="wl-dim">As of {moment}{way}</div>'

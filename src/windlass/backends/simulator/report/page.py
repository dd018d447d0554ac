"""Renders the report as one HTML file that contains its style, its script, uPlot and its data."""

from __future__ import annotations

import html
import json
from importlib.resources import files
from string import Template
from typing import Any

from windlass.backends.simulator.report.build import Report
from windlass.backends.simulator.report.number_format import format_count, format_deviation, format_figure

_HERE = files("windlass.backends.simulator.report")
_SCRIPTS = ("vendor/uplot/uPlot.iife.min.js", *(f"assets/{name}.js" for name in ("format", "charts", "gantt", "page")))
_STYLES = ("vendor/uplot/uPlot.min.css", "assets/page.css")
_DRAWN = ("charts", "gantt")
_COLOURS = 8
"""Number of policy colours: --p0 to --p7 of the style, used in turn."""


def render_page(report: Report) -> str:
    """Returns the whole page as text."""
    policies = [policy["name"] for policy in report["policies"]]
    data = {"policies": policies, **{name: report[name] for name in _DRAWN}}
    return Template(_asset("assets/page.html")).substitute(
        title=html.escape(f"{report['heading']} – windlass simulate"),
        heading=html.escape(report["heading"]),
        summary="\n".join(f"  <p>{html.escape(text)}</p>" for text in report["summary"]),
        facts="\n".join(
            f"    <div><dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd></div>" for k, v in _facts(report)
        ),
        command=" ".join(f"<span>{html.escape(word)}</span>" for word in report["command"].split(" ")),
        figures_about=html.escape(_about(report)),
        figures=_table(report, policies),
        style="\n".join(map(_asset, _STYLES)),
        script="\n".join(map(_asset, _SCRIPTS)),
        data=_inside_html(data),
    )


def _asset(name: str) -> str:
    return _HERE.joinpath(name).read_text(encoding="utf-8")


def _inside_html(data: dict[str, Any]) -> str:
    """Returns JSON in which a job name with `</script>` cannot close the script element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _facts(report: Report) -> list[tuple[str, str]]:
    facts = [
        (f"Trace {source['name']}", f"{format_count(source['jobs'], 'job')}, {source['about']}")
        for source in report["sources"]
    ]
    facts += [("Cluster", report["cluster"])]
    seeds = report["seeds"]
    if report["random"]:
        facts.append(("Seeds", f"{seeds[0]}–{seeds[-1]}" if len(seeds) > 1 else str(seeds[0])))
    return facts


def _about(report: Report) -> str:
    seeds = len(report["seeds"])
    spread = f"Means ± standard deviations over {format_count(seeds, 'seed')}; the charts show the first of them. "
    return f"{spread if report['random'] and seeds > 1 else ''}Where one is better than another, the best is marked."


def _table(report: Report, policies: list[str]) -> str:
    head = "".join(
        f'<th scope="col"><i style="background: var(--p{number % _COLOURS})"></i>{html.escape(name)}</th>'
        for number, name in enumerate(policies)
    )
    rows = "\n".join(_row(figure) for figure in report["figures"])
    return f'<table class="figures">\n<thead><tr><td></td>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>'


def _row(figure: dict[str, Any]) -> str:
    about = f"<small>{html.escape(figure['about'])}</small>" if figure["about"] else ""
    shown = [format_figure(mean, figure["unit"]) for mean in figure["mean"]]
    best = _best(figure, shown)
    cells = []
    for mark, text, mean, sd in zip(best, shown, figure["mean"], figure["sd"], strict=True):
        spread = format_deviation(mean, sd, figure["unit"])
        cells.append(f'<td class="{mark}">{text}{f" <small>± {spread}</small>" if spread else ""}</td>')
    return f'<tr><th scope="row"><div>{html.escape(figure["title"])} {about}</div></th>{"".join(cells)}</tr>'


def _best(figure: dict[str, Any], shown: list[str]) -> list[str]:
    """Returns the marked cells: those that show the best value; none where all cells show it."""
    if not figure["better"] or len(set(shown)) < 2:
        return ["rest"] * len(shown)
    best = (min if figure["better"] == "lower" else max)(figure["mean"])
    text = shown[figure["mean"].index(best)]
    return ["best" if each == text else "rest" for each in shown]

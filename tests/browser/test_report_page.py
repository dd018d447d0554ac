"""The report of a simulation in a browser: widths, colour schemes, mouse and keyboard."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from windlass.backends.simulator import cluster_of, measure, replay
from windlass.backends.simulator.report import Experiment, PolicyRun, build, write
from windlass.backends.simulator.report.experiment import TraceSource
from windlass.backends.simulator.study.synthetic_trace import parse_synthetic_trace
from windlass.core.queues.orders.registry import POLICIES

NAMES = ("fifo", "easy", "windlass")
CLUSTER = cluster_of(6, 8)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    trace = parse_synthetic_trace("jobs=250 load=1.2 sizes=1/2/4/8/16", CLUSTER).trace(3)
    runs = []
    for name in NAMES:
        outcome = replay(trace, CLUSTER, POLICIES[name])
        runs.append(PolicyRun(name, 3, measure(outcome), outcome))
    sources = (TraceSource("drawn", "drawn from a distribution", 250),)
    policies = {name: POLICIES[name] for name in NAMES}
    experiment = Experiment("windlass simulate …", sources, "6 nodes with 8 GPUs each", policies, (3,), "")
    return write(build(experiment, runs), tmp_path_factory.mktemp("report")).as_uri()


def test_the_page_draws_every_chart_and_the_gantt_chart(url: str, shared: Callable[..., Any]):
    page = shared(url, width=1280, dark=False)
    assert page.title().startswith("drawn on 6 nodes with 8 GPUs each")
    assert page.locator("figure canvas").count() == 6
    assert page.get_by_role("heading", name="Who ran where").is_visible()
    for canvas in page.locator("canvas").all():
        assert colours_of(canvas) > 3, "a canvas on which nothing is drawn"


@pytest.mark.parametrize("width", [390, 768, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_fits_any_width(url: str, shared: Callable[..., Any], width: int, dark: bool):
    page = shared(url, width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for figure in page.locator("figure").all():
        box = figure.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    assert page.locator(".charts").evaluate("e => getComputedStyle(e).gridTemplateColumns.split(' ').length") == (
        2 if width > 900 else 1
    )


def test_a_policy_is_hidden_and_shown_in_all_charts(url: str, opened: Callable[..., Any]):
    page = opened(url)
    page.get_by_role("button", name="easy").first.click()
    assert page.get_by_role("button", name="easy").first.get_attribute("aria-pressed") == "false"
    assert page.locator("figure .u-series.u-off").count() == 6
    page.get_by_role("button", name="easy").first.press("Enter")
    assert page.locator("figure .u-series.u-off").count() == 0


def test_a_chart_shows_the_values_under_the_cursor(url: str, opened: Callable[..., Any]):
    page = opened(url)
    page.locator("#utilisation .u-over").hover()
    output = page.locator("#utilisation .u-legend").inner_text()
    assert "fifo" in output
    assert "%" in output
    page.locator("#wait .u-over").hover()
    assert page.locator("#wait .u-legend .u-value").first.inner_text() in ("2", "4", "8", "2–3", "4–7", "8–15")


def test_a_chart_has_several_views_and_a_table_of_its_numbers(url: str, opened: Callable[..., Any]):
    page = opened(url)
    wait = page.locator("#wait")
    wait.get_by_role("button", name="99th percentile").click()
    assert wait.get_by_role("button", name="average").get_attribute("aria-pressed") == "false"
    wait.locator("summary").click()
    rows = wait.locator("details tbody tr")
    rows.first.wait_for()  # the table is filled after it was opened, and the click does not wait for that
    assert rows.count() == len(data_of(page)["charts"][4]["categories"])
    assert wait.locator("details thead th").all_inner_texts() == ["GPUs", *NAMES]


def test_the_gantt_chart_is_moved_and_zoomed_by_keys(url: str, opened: Callable[..., Any]):
    page = opened(url)
    canvas = page.locator("#gantt canvas")
    canvas.focus()
    whole = canvas.evaluate("e => e.toDataURL()")
    for key in ("+", "ArrowRight", "ArrowDown"):
        before = canvas.evaluate("e => e.toDataURL()")
        page.keyboard.press(key)
        assert canvas.evaluate("e => e.toDataURL()") != before, key
    page.keyboard.press("0")
    assert canvas.evaluate("e => e.toDataURL()") == whole


def test_the_gantt_chart_names_the_job_under_the_mouse(url: str, opened: Callable[..., Any]):
    page = opened(url)
    canvas = page.locator("#gantt canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    for part in range(1, 40):
        page.mouse.move(box["x"] + 74 + (box["width"] - 74) * part / 40, box["y"] + 30)
        output = page.locator("#gantt output").inner_text()
        if output:
            break
    assert "GPU" in output
    assert "in queue q" in output
    page.locator("#gantt").get_by_role("button", name="windlass").click()
    page.locator("#gantt").get_by_role("button", name="queue").click()
    assert page.locator("#gantt .queues li").all_inner_texts() == ["q1", "q2", "q3"]


def test_all_controls_have_a_name_and_can_be_reached_by_keyboard(url: str, opened: Callable[..., Any]):
    page = opened(url)
    assert page.locator("[role=img]:not([aria-label])").count() == 0
    assert all(button.inner_text() for button in page.get_by_role("button").all())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the figures"
    assert [heading.evaluate("e => e.tagName") for heading in page.get_by_role("heading").all()].count("H1") == 1


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_enough_contrast(url: str, shared: Callable[..., Any], dark: bool):
    """WCAG 2 AA: 4.5 to 1 for text, 3 to 1 for lines."""
    page = shared(url, width=1280, dark=dark)
    for ink, ground, least in (
        *((ink, ground, 4.5) for ink in ("--ink", "--quiet", "--accent") for ground in ("--ground", "--card")),
        ("--best", "--card", 4.5),
        ("--accent", "--mark", 4.5),
        *((f"--p{number}", "--card", 3.0) for number in range(8)),
    ):
        assert contrast(page, ink, ground) >= least, (ink, ground)


# --- reading the page ------------------------------------------------------------------------------------------


def data_of(page: Any) -> Any:
    return json.loads(page.locator("#data").text_content())


def colours_of(canvas: Any) -> int:
    return canvas.evaluate(
        """e => {
          const pixels = new Uint32Array(e.getContext("2d").getImageData(0, 0, e.width, e.height).data.buffer);
          return new Set(pixels).size;
        }"""
    )


def contrast(page: Any, *names: str) -> float:
    """Returns the contrast of two colours of the style, as WCAG 2 defines it."""
    values = [
        page.evaluate("n => getComputedStyle(document.documentElement).getPropertyValue(n).trim()", n) for n in names
    ]
    light, dark = sorted((luminance(value) for value in values), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

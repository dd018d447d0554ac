"""The report of a small simulation: its texts and figures, and the validity of the page."""

import json
import re
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pytest
from small_runs import FOUR, HOUR, experiment, job, outcome_of, runs, trace

from windlass.backends.simulator import SimulationError, cluster_of, measure, replay
from windlass.backends.simulator.report import PolicyRun, build, check_folder, mean_and_sd, timeline, write
from windlass.backends.simulator.report.gantt import gantt
from windlass.backends.simulator.report.lanes import Lanes
from windlass.backends.simulator.report.number_format import (
    format_deviation,
    format_duration,
    format_figure,
    format_mean,
    join_names,
)
from windlass.backends.simulator.report.page import render_page
from windlass.core.queues.orders.registry import POLICIES

HALF_HOURS = np.arange(0, 7) * HOUR // 2


def report(*policies, **more):
    return build(experiment(*policies, **more), runs(*policies))


# --- numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.04, "40 ms"), (59.99, "1 min"), (90, "1.5 min"), (3600, "1 h"), (4567, "1.27 h"), (1e6, "11.6 d")],
)
def test_durations_are_formatted_in_their_largest_unit(seconds, text):
    assert format_duration(seconds) == text


def test_a_mean_and_its_deviation_share_a_unit():
    assert format_mean(720, 24, "s") == "12 ± 0.4 min"
    assert format_mean(0.1234, 0.01, "share") == "12.3 ± 1 %"
    assert format_mean(5, 0, "count") == "5"
    assert format_mean(40_000, 14, "s") == "11.1 ± 0 h"
    assert (format_deviation(3600, 61, "s"), format_figure(1234.5, "ratio"), join_names(["a", "b", "c"])) == (
        "0.02",
        "1,234",
        "a, b and c",
    )


def test_the_deviation_is_that_of_a_sample():
    assert mean_and_sd([2.0, 4.0]) == (3.0, pytest.approx(2**0.5))
    assert mean_and_sd([7.0]) == (7.0, 0.0)
    assert mean_and_sd([0.1] * 3) == (0.1, 0.0)


# --- series -------------------------------------------------------------------------------------------


def test_held_amounts_are_averaged_exactly():
    held = timeline.interval_means(timeline.held_amount(outcome_of(*FOUR)), HALF_HOURS) / 1000
    assert held.tolist() == [3, 7, 7, 8, 5, 0]


def test_the_waiting_demand_is_that_of_jobs_submitted_and_not_running():
    wanted = timeline.interval_means(timeline.wanted_amount(outcome_of(*FOUR)), HALF_HOURS) / 1000
    assert wanted.tolist() == [0, 0, 4, 0, 0, 0]


def test_an_interval_may_begin_and_end_at_any_time():
    steps = timeline.sum_intervals(np.array([10, 25]), np.array([30, 45]), np.array([2, 4]))
    assert timeline.interval_means(steps, np.array([0, 20, 40, 60])).tolist() == [1.0, 4.0, 1.0]
    assert timeline.interval_means(steps, np.array([-20, 0])).tolist() == [0.0]


def test_free_gpus_are_unusable_where_the_next_job_does_not_fit():
    outcome = outcome_of(job(1, 0, 1, 3), job(2, 0, 1, 4))
    lost = timeline.unusable_share(outcome, np.array([0, HOUR // 2, HOUR]))
    assert lost.tolist() == [1.0, 1.0]
    full = timeline.unusable_share(outcome_of(job(1, 0, 1, 4), job(2, 0, 1, 4)), np.array([0, HOUR]))
    assert np.isnan(full).all()


# --- gantt --------------------------------------------------------------------------------------------


def test_a_gang_takes_the_first_interval_that_is_long_enough():
    lanes = Lanes(8)
    one, two, three = lanes.take(2), lanes.take(4), lanes.take(2)
    assert (one, two, three) == ([(0, 2)], [(2, 6)], [(6, 8)])
    lanes.give(one)
    lanes.give(three)
    assert lanes.take(3) == [(0, 2), (6, 7)]
    assert lanes.take(1) == [(7, 8)]


def test_a_returned_interval_is_merged_with_its_neighbours():
    lanes = Lanes(8)
    pieces = [lanes.take(2) for _ in range(4)]
    for number in (0, 2, 1, 3):
        lanes.give(pieces[number])
    assert lanes.take(8) == [(0, 8)]


def test_every_run_is_a_bar_and_no_two_overlap():
    drawn = gantt({"fifo": outcome_of(*FOUR)})
    bars = np.array(drawn["bars"][0]).reshape(-1, 6)
    assert sorted(drawn["jobs"][int(bar[0])]["id"] for bar in bars) == ["j1", "j2", "j3", "j4"]
    assert (drawn["from"], drawn["to"], drawn["queues"]) == (0, 2.5 * 3600, ["research", "teaching"])
    for i, a in enumerate(bars):
        for b in bars[i + 1 :]:
            apart_in_time = a[5] <= b[4] or b[5] <= a[4]
            apart_in_space = a[1] != b[1] or a[2] + a[3] <= b[2] or b[2] + b[3] <= a[2]
            assert apart_in_time or apart_in_space


def test_a_long_trace_is_shown_around_its_longest_queue():
    few = [job(n, n, 0.9, 4) for n in range(3_000)]
    busy_hour = [job(3_000 + n, 3_000, 0.5, 4) for n in range(3_000)]
    drawn = gantt({"fifo": outcome_of(*few, *busy_hour)})
    assert len(drawn["bars"][0]) // 6 <= 4_000
    assert drawn["from"] / 3600 > 1_000
    assert "around the longest queue" in drawn["about"]


# --- report and page ----------------------------------------------------------------------------------------


def test_the_summary_describes_the_simulation_and_names_the_best_policy():
    text = " ".join(report("fifo", "sjf")["summary"])
    assert (
        "4 jobs with 15 GPU-hours of work were replayed on 2 nodes with 4 GPUs each under 2 policies: fifo and sjf"
        in text
    )
    assert "so each has one run" in text


def test_the_summary_names_the_seeds_where_something_is_random():
    text = report("fifo", seeds=(1, 2, 3), random="walltimes are drawn anew")["summary"][0]
    assert "each under 3 seeds (walltimes are drawn anew)" in text


def test_the_json_has_every_figure_run_and_job():
    found = report("fifo", "sjf")
    wait = next(figure for figure in found["figures"] if figure["key"] == "wait_avg")
    assert wait["mean"] == [450.0, 450.0]  # j3 waits half an hour, of four jobs
    assert [run["policy"] for run in found["runs"]] == ["fifo", "sjf"]
    assert found["runs"][0]["wait_avg"] == 450.0
    assert found["jobs"]["id"] == ["j1", "j2", "j3", "j4"]
    assert found["jobs"]["policies"]["fifo"]["first_begin_ms"][2] == 1.5 * HOUR
    assert json.loads(json.dumps(found)) == found


def test_charts_have_a_line_for_each_policy_and_an_alternative_text():
    charts = report("fifo", "sjf", "windlass")["charts"]
    assert [c["id"] for c in charts] == ["utilisation", "waiting", "fragmentation", "jct", "wait", "fairness"]
    for chart in charts:
        assert chart["alt"].endswith(".")
        for view in chart["views"]:
            assert len(view["series"]) == 3
            assert all(len(line) == len(chart.get("categories") or chart["x"]) for line in view["series"])


def test_bar_charts_have_a_class_for_each_queue_and_size():
    charts = {chart["id"]: chart for chart in report("fifo")["charts"]}
    assert charts["wait"]["categories"] == ["1", "2–3", "4–7"]
    assert charts["fairness"]["categories"] == ["research", "teaching"]
    share = charts["fairness"]["views"][2]["series"][0]
    assert share == [pytest.approx(14 / 15, abs=1e-3), pytest.approx(1 / 15, abs=1e-3)]


def test_a_single_job_of_no_length_has_a_page_too():
    only = job(1, 0, 0, 1)
    found = build(experiment("fifo"), runs("fifo", jobs=(only,)))
    assert all(value in (0, None) for chart in found["charts"][:2] for value in chart["views"][0]["series"][0])
    assert "1 job with 0 GPU-hours" in render_page(found)


def test_a_trace_without_gpus_is_reported_in_cores():
    jobs = (job(1, 0, 1, 0, cpu=2_000), job(2, 0, 1, 0, cpu=4_000))
    found = replay(trace(*jobs), cluster_of(1, 0, cpus=4), POLICIES["fifo"])
    built = build(experiment("fifo", cluster="1 node"), [PolicyRun("fifo", 1, measure(found), found)])
    assert "2 jobs with 6 core-hours of work" in built["summary"][0]
    assert (built["charts"][4]["x_title"], built["gantt"]["noun"]) == ("cores", "core")


class _Tags(HTMLParser):
    """Checks that every start tag has its end tag."""

    VOID = frozenset({"meta", "br", "link", "input"})

    def __init__(self):
        super().__init__()
        self.open = []
        self.links = []

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in {"src", "href"}]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_loads_nothing():
    text = render_page(report("fifo", "windlass"))
    tags = _Tags()
    tags.feed(text)
    assert (tags.open, tags.links) == ([], ["#figures"])
    assert "default-src 'none'" in text
    assert not re.search(r"""(?:src|href)=["']?https?:|url\(|@import|fetch\(|XMLHttpRequest""", text)


def test_names_of_jobs_and_queues_are_escaped_in_the_page():
    job_with_markup = job(1, 0, 1, 1, queue="</script><script>alert(1)</script>", user="<b>")
    found = build(experiment("fifo", command="x <y> & z"), runs("fifo", jobs=(job_with_markup,)))
    text = render_page(found)
    assert text.count("</script>") == 2
    assert "alert(1)</script>" not in text
    assert "<span>x</span> <span>&lt;y&gt;</span> <span>&amp;</span> <span>z</span>" in text


def test_the_best_of_each_row_is_marked_and_a_tie_is_not():
    text = render_page(report("fifo", "windlass"))
    assert '<td class="best">' not in text.split("Offered load")[1].split("</tr>")[0]
    found = build(
        experiment("fifo", "sjf"),
        runs("fifo", "sjf", jobs=(job(1, 0, 9, 4), job(2, 0, 12, 4), job(3, 1, 9, 4), job(4, 2, 1, 4))),
    )
    row = render_page(found).split("Average wait")[1].split("</tr>")[0]
    assert re.findall(r'<td class="(\w+)">', row) == ["rest", "best"]


def test_the_same_simulation_gives_the_same_bytes_in_any_folder(tmp_path):
    for name in ("a", "b"):
        write(report("fifo", "windlass"), tmp_path / name / "deep")
    one, two = ({file.name: file.read_bytes() for file in (tmp_path / n / "deep").iterdir()} for n in ("a", "b"))
    assert one == two
    assert set(one) == {"index.html", "report.json"}
    assert str(tmp_path).encode() not in one["index.html"] + one["report.json"]


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    for refuse in (check_folder, lambda folder: write(report("fifo"), folder)):
        with pytest.raises(SimulationError, match="name another folder with --report"):
            refuse(tmp_path / "file" / "out")
    check_folder(tmp_path / "new" / "deep")
    assert not (tmp_path / "new").exists()


def test_uplot_has_the_checksums_of_its_release():
    vendor = files("windlass.backends.simulator.report").joinpath("vendor/uplot")
    stated = dict(re.findall(r"^([0-9a-f]{64})  (\S+)$", vendor.joinpath("SOURCE").read_text(), re.MULTILINE))
    assert {sha256(vendor.joinpath(name).read_bytes()).hexdigest(): name for name in stated.values()} == stated
    assert "MIT" in vendor.joinpath("LICENSE").read_text()

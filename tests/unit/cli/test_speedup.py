"""`windlass scaling`: resized jobs, and results from step reports. Starts no process."""

import xml.etree.ElementTree as ET

import pytest

from windlass.cli.errors import UsageError
from windlass.cli.speedup.charts import html_page, svg, text_bars
from windlass.cli.speedup.report import MachineLoad, comparison_notes, comparison_table
from windlass.cli.speedup.sizes import (
    Size,
    parse_counts,
    resize_job,
    shares_cores,
    sizes_by_nodes,
    sizes_by_ranks,
    threads_for,
)
from windlass.cli.speedup.throughput import MeasuredRun, Reading, compare_runs, counted_readings, pace_of
from windlass.core.model.job import Job, RestartPolicy, Role


def reading(step, step_ms, batch=64, **phases):
    rates = {"step_ms": step_ms, "samples_per_second": batch / step_ms * 1000}
    return Reading(step, rates | {f"{name}_ms": spent for name, spent in phases.items()})


def run(ranks, *readings, seconds=1.0, whole=True):
    return MeasuredRun(Size(1, ranks), f"train-{ranks}", readings, seconds, whole)


class TestSizes:
    def test_a_job_of_one_rank_is_one_replica_at_any_size(self):
        assert sizes_by_ranks(Role(), [1, 2, 4]) == [Size(1, 1), Size(1, 2), Size(1, 4)]

    def test_nodes_are_filled_one_after_the_other(self):
        assert sizes_by_ranks(Role(replicas=2, procs=4), [1, 4, 8]) == [Size(1, 1), Size(1, 4), Size(2, 4)]
        assert sizes_by_ranks(Role(replicas=2), [1, 2, 4]) == [Size(1, 1), Size(2, 1), Size(4, 1)]

    def test_sizes_by_nodes_keep_the_ranks_per_node(self):
        assert sizes_by_nodes(Role(procs=4), [1, 2]) == [Size(1, 4), Size(2, 4)]

    def test_an_uneven_division_is_refused_with_the_numbers(self):
        with pytest.raises(UsageError, match="--ranks 5: cannot be divided evenly among 2 nodes of up to 4 ranks"):
            sizes_by_ranks(Role(procs=4), [1, 4, 5])

    def test_gpus_scale_with_ranks_and_restarts_are_disabled(self):
        job = Job("a", (Role(procs=4, resources={"gpu": 4, "cpu": 16_000}),), restart=RestartPolicy(user_limit=3))
        found = resize_job(job, Size(1, 2), {"A": "1"})
        assert found.roles[0].resources == {"gpu": 2, "cpu": 8_000}
        assert (found.roles[0].procs, found.roles[0].env, found.restart.user_limit) == (2, {"A": "1"}, 0)

    def test_two_ranks_cannot_share_a_gpu(self):
        job = Job("a", (Role(procs=4, resources={"gpu": 2}),))
        with pytest.raises(UsageError, match=r"1 of 4 ranks would have 0\.5 of a node's 2 gpu"):
            resize_job(job, Size(1, 1), {})

    def test_ranks_without_devices_share_cores_with_as_many_threads_at_every_size(self):
        role = Role(resources={"cpu": 1000})
        assert resize_job(Job("a", (role,)), Size(1, 4), {}).roles[0].resources == {}
        assert threads_for(role, 4, 8, {}) == {"OMP_NUM_THREADS": "2"}
        assert threads_for(role, 4, 2, {}) == {"OMP_NUM_THREADS": "1"}
        assert threads_for(role, 4, 8, {"OMP_NUM_THREADS": "3"}) == {}
        assert shares_cores(role, Size(1, 4), 2)
        assert not shares_cores(role, Size(1, 2), 2)
        assert not shares_cores(Role(resources={"gpu": 1}), Size(1, 4), 2)

    @pytest.mark.parametrize("text", ["1", "2,2", "0,1", "1,x", ""])
    def test_at_least_two_numbers_are_required(self, text):
        with pytest.raises(UsageError, match="--ranks"):
            parse_counts("--ranks", text)

    def test_numbers_are_sorted(self):
        assert parse_counts("--ranks", "4, 1,2") == (1, 2, 4)


class TestThroughput:
    def test_the_first_report_and_the_warm_up_do_not_count(self):
        readings = [reading(10, 99), reading(20, 50), reading(30, 10), reading(50, 10)]
        assert [count for count, _ in counted_readings(readings, 10)] == [10, 10, 20]
        assert [each.step for _, each in counted_readings(readings, 20)] == [30, 50]

    def test_means_are_over_steps_and_the_rest_is_other(self):
        pace = pace_of([reading(10, 99), reading(20, 20, forward=8), reading(50, 12, forward=4)], 0)
        assert pace.steps == 40
        assert pace.step_ms == pytest.approx(14)
        assert pace.batch == pytest.approx(64)
        assert pace.samples_per_second == pytest.approx(64 / 0.014)
        assert pace.phases == pytest.approx({"forward": 5, "other": 9})

    def test_speed_up_and_efficiency_are_relative_to_the_smallest(self):
        one, four = run(1, reading(10, 9), reading(20, 40)), run(4, reading(10, 9), reading(20, 16))
        first, last = compare_runs([four, one], 10)
        assert (first["ranks"], first["speedup"], first["efficiency"]) == (1, 1, 1)
        assert (last["ranks"], last["speedup"], last["efficiency"]) == pytest.approx((4, 2.5, 0.625))

    def test_runs_without_reports_are_compared_by_duration(self):
        rows = compare_runs([run(1, seconds=12.0), run(2, reading(10, 9), reading(20, 9), seconds=8.0)], 0)
        assert [row["speedup"] for row in rows] == [1, 1.5]
        assert rows[1]["step_ms"] is None
        assert "whole runs are compared" in next(comparison_notes(rows, [], MachineLoad(2)))

    def test_a_growing_batch_and_shared_cores_are_noted(self):
        runs = [run(1, reading(10, 9), reading(20, 9)), run(4, reading(10, 9), reading(20, 9, batch=256))]
        rows = compare_runs(runs, 0)
        assert list(comparison_notes(rows, runs, MachineLoad(2, load=3.0, sharing=(4,)))) == [
            "the batch grew with the ranks (samples per step: 64 on 1, 256 on 4): this is weak scaling",
            "this machine has 2 cores: 4 ranks share them and cannot be faster than 2 ranks",
            "the machine was busy before the first run (load 3.0 on 2 cores): measure on an idle one",
        ]
        assert rows[1]["speedup"] == pytest.approx(4)


class TestCharts:
    ROWS = compare_runs(
        [
            run(1, reading(10, 9), reading(20, 40, forward=10, backward=30)),
            run(2, reading(10, 9), reading(20, 20, forward=5, backward=10, agree=5)),
        ],
        0,
    )

    def test_bar_lengths_are_proportional_to_values(self):
        assert text_bars(self.ROWS).splitlines() == [
            "speed-up (░ ideal)",
            f"    1  {'█' * 20}  1.00 of 1",
            f"    2  {'█' * 40}  2.00 of 2",
            "a step (f forward, b backward, a agree)",
            f"    1  {'f' * 10}{'b' * 30}  40 ms",
            f"    2  {'f' * 5}{'b' * 10}{'a' * 5}  20 ms",
        ]

    def test_the_svg_is_valid_and_self_contained(self):
        drawn = ET.fromstring(svg(self.ROWS, "a <b>"))  # noqa: S314 - our own
        words = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
        assert {"a <b>", "speed-up", "2.00", "ms of a step", "agree"} <= set(words)
        assert "href" not in html_page(self.ROWS, "a")

    def test_the_table_has_a_column_for_each_long_phase(self):
        titles = [column.title for column in comparison_table(self.ROWS).columns if not column.wide]
        steps = ["SAMPLES/S", "MS PER STEP", "FORWARD", "BACKWARD", "AGREE"]
        assert titles == ["RANKS", "SPEED-UP", "EFFICIENCY", *steps]

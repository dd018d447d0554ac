"""Use of nodes: GPUs as their driver reports them, else the part of a step that is no waiting."""

from windlass.server.dashboard.node_use import node_use


def job(*ranks: tuple[str, dict[str, float]]) -> dict[str, object]:
    return {"id": "job-1", "progress": {"ranks": [{"node": node, "values": values} for node, values in ranks]}}


def test_ranks_of_a_node_are_averaged_and_the_hottest_counts() -> None:
    hot = ("a", {"gpu_utilisation": 1.0, "gpu_temperature": 80.0})
    cool = ("a", {"gpu_utilisation": 0.5, "gpu_temperature": 60.0})
    assert node_use([job(hot, cool)]) == {"a": {"job-1": {"use": 0.75, "temperature": 80.0}}}


def test_without_a_gpu_use_is_the_busy_part_of_a_step() -> None:
    found = node_use([job(("a", {"busy_ms": 30.0, "step_ms": 40.0}), ("b", {}))])
    assert found == {"a": {"job-1": {"use": 0.75, "temperature": None}}}


def test_a_job_without_progress_reports_nothing() -> None:
    assert node_use([{"id": "job-1", "progress": None}]) == {}

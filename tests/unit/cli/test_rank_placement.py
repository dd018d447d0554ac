"""The node of each rank."""

from windlass.cli.rank_placement import nodes_of_ranks


def story(launcher):
    roles = [{"name": "ps", "procs": 1}, {"name": "worker", "procs": 2}]
    tasks = [{"generation": 1, "rank": n, "role": role, "node": f"n{n}"} for n, role in enumerate(["ps", "worker"])]
    return {"spec": {"launcher": launcher, "roles": roles}, "tasks": tasks}


def test_a_task_is_a_rank():
    assert nodes_of_ranks(story("plain")) == {(1, 0): "n0", (1, 1): "n1"}


def test_a_task_of_an_agent_is_a_replica_and_the_agent_has_a_negative_rank():
    assert nodes_of_ranks(story("agent")) == {(1, -1): "n0", (1, 0): "n0", (1, -2): "n1", (1, 1): "n1", (1, 2): "n1"}

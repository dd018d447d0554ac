"""Random lives of jobs whose pods restart one by one: invariants that hold after every step."""

from hypothesis import given
from hypothesis import strategies as st
from member_stage import Stage

from depth import depth
from windlass.core.lifecycle import events as e
from windlass.core.model.status import Phase

PHASES = ("Pending", "Running", "Succeeded", "Failed")
POLICIES = ("OnFailure", "Never", "Always", "ExitCode")
ROLES = {
    "PyTorchJob": ("pytorch", "pytorch", "Master"),
    "TFJob": ("tf", "tensorflow", "PS"),
    "XGBoostJob": ("xgb", "xgboost", "Master"),
    "MPIJob": ("mpi", "mpi", "Launcher"),
}


def job(kind, policy, clean, limit):
    field, container, first = ROLES[kind]
    pod = {"spec": {"containers": [{"name": container, "image": "i"}]}}
    replicas = {"restartPolicy": policy, "template": pod}
    run_policy = {"cleanPodPolicy": clean, "backoffLimit": limit}
    specs = {first: {**replicas, "replicas": 1}, "Worker": {**replicas, "replicas": 2}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": "j"},
        "spec": {"runPolicy": run_policy, f"{field}ReplicaSpecs": specs},
    }


def pod(name, phase, code):
    ended = {"state": {"terminated": {"exitCode": code}}} if phase == "Failed" else {}
    return {"metadata": {"name": name}, "status": {"phase": phase, "containerStatuses": [{"name": "c", **ended}]}}


def true(conditions):
    return {each["type"] for each in conditions if each["status"] == "True"}


lives = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(PHASES), st.sampled_from((0, 1, 137)), st.booleans()), max_size=14
)


@depth(80)
@given(
    st.sampled_from(sorted(ROLES)),
    st.sampled_from(POLICIES),
    st.sampled_from(("None", "Running", "All")),
    st.none() | st.integers(0, 3),
    lives,
)
def test_invariants_hold_in_random_lives(kind, policy, clean, limit, life):
    manifest = job(kind, policy, clean, limit)
    stage, pods, made, ended = Stage(manifest), {}, 0, ""
    for which, phase, code, suspend in life:
        names, before = list(stage.names), set(stage.executor.created)
        if which < len(names) and names[which] in pods:
            stage.put(pod(names[which], phase, code), uid=pods[names[which]])
        stage.turn(*([e.Suspend()] if suspend else []))
        created, deleted = set(stage.executor.created), set(stage.executor.deleted)
        status = stage.status()
        conditions = status["conditions"]
        end = next(iter({"Succeeded", "Failed"} & true(conditions)), "")
        assert not created & set(pods), "no member is created twice"
        assert deleted <= set(pods), "only existing pods are deleted"
        assert not {"Running", "Restarting"} <= true(conditions)
        assert not (end and "Running" in true(conditions))
        assert len({each["type"] for each in conditions}) == len(conditions)
        assert not (created if ended else end and created - before), "an ended job creates no pods"
        assert not ended or end == ended, "an end stays as it is"
        by_limit = stage.state.status.reason == "BackoffLimitExceeded"
        assert not (end and clean == "None" and ended and deleted) or by_limit
        ended = end
        stage.executor.created.clear()
        stage.executor.deleted.clear()
        for name in deleted:
            del pods[name]
            stage.remove(name)
        for name in created:
            made += 1
            pods[name] = f"uid-{made}"
            stage.put(pod(name, "Pending", 0), uid=pods[name])
        stage.turn()
        if stage.state.status.phase is Phase.SUSPENDED:  # resumed in a new generation
            assert "Suspended" in true(stage.status()["conditions"])
            restarts = stage.state.status.member_restarts
            stage, pods = Stage({**manifest, "status": stage.status()}, remade=restarts), {}

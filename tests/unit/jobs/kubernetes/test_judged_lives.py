"""Lives of jobs under `judge`: pods do what they like, the judgement is carried out, and some things never happen."""

import yaml
from hypothesis import given
from hypothesis import strategies as st

from depth import depth
from windlass.jobs.kubernetes.kinds.registry import judge, read
from windlass.jobs.kubernetes.status.pod_states import member_names

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


def true(verdict):
    return {each["type"] for each in verdict.conditions if each["status"] == "True"}


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
def test_some_things_never_happen(kind, policy, clean, limit, life):
    manifest = job(kind, policy, clean, limit)
    names = list(member_names(read(manifest)))
    pods, remade, ended = {}, 0, ""
    for which, phase, code, suspend in life:
        manifest["spec"]["runPolicy"]["suspend"] = suspend
        if which < len(names) and names[which] in pods:
            pods[names[which]] = pod(names[which], phase, code)
        verdict = judge(read(manifest), list(pods.values()), remade=remade)
        assert not set(verdict.create) & set(pods), "nobody is made twice"
        assert set(verdict.delete) <= set(pods), "only what is there is deleted"
        assert not {"Running", "Restarting"} <= true(verdict)
        assert not ({"Succeeded", "Failed"} & true(verdict) and "Running" in true(verdict))
        assert len({each["type"] for each in verdict.conditions}) == len(verdict.conditions)
        assert not (verdict.ended and verdict.create), "what has ended makes no pods"
        assert not ended or verdict.ended == ended, "what has ended stays so"
        assert not (verdict.ended and clean == "None" and ended and verdict.delete)
        remade, ended = remade + verdict.anew, verdict.ended
        pods = {name: each for name, each in pods.items() if name not in verdict.delete}
        pods |= {name: pod(name, "Pending", 0) for name in verdict.create}
        manifest["status"] = yaml.safe_load(yaml.safe_dump(status(verdict)))


def status(verdict):
    """As the world stores it."""
    replicas = {name: dict(each) for name, each in verdict.replica_statuses.items()}
    return {"conditions": [dict(each) for each in verdict.conditions], "replicaStatuses": replicas}

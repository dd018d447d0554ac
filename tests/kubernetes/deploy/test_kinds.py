"""A real API server accepts the definitions, and stores every sample unchanged."""

from __future__ import annotations

import asyncio
import copy

import pytest

from deploy.samples import place, sample, samples
from windlass.controlplane.api import ApiError
from windlass.jobs.kubernetes.kinds.mpijob_parts import in_its_version

STRICT = {"dryRun": "All", "fieldValidation": "Strict"}


def within(whole, part):
    """Whether `whole` contains `part`. The API server may have added fields."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(name in whole and within(whole[name], part[name]) for name in part)
    if isinstance(part, list):
        return isinstance(whole, list) and len(whole) == len(part) and all(map(within, whole, part))
    return whole == part


def test_every_definition_is_established_without_a_warning(run_on_api):
    async def story(api):
        found = await api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
        for each in found["items"]:
            conditions = {one["type"]: one["status"] for one in each["status"]["conditions"]}
            assert conditions["Established"] == conditions["NamesAccepted"] == "True"
            assert "NonStructuralSchema" not in conditions
        return len(found["items"])

    assert run_on_api(story) >= 14


@pytest.mark.parametrize("manifest", samples(), ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_a_sample_is_accepted_and_stored_whole(run_on_api, manifest):
    kept = run_on_api(lambda api: api.post(place(manifest), manifest, **STRICT))
    assert within(kept, manifest)


def test_a_mistyped_field_is_reported(run_on_api):
    job = sample("PyTorchJob", "digits")
    job["spec"]["runPolicy"]["backofLimit"] = 3
    with pytest.raises(ApiError, match=r'unknown field "spec.runPolicy.backofLimit"'):
        run_on_api(lambda api: api.post(place(job), job, **STRICT))


@pytest.mark.parametrize("name", ["horovod", "pi"])
def test_an_mpi_job_keeps_its_dialect_through_either_version(run_on_api, name):
    job = sample("MPIJob", name)

    async def story(api):
        try:
            await api.post(place(job), job)
            seen = []
            for version in ("v1", "v2beta1"):
                where = place({**job, "apiVersion": f"kubeflow.org/{version}"}, name)
                read = await api.get(where)
                changed = await api.patch(where, {"spec": {"runPolicy": {"suspend": True}}})
                seen += [in_its_version(read), in_its_version(changed)]
            return seen
        finally:
            await api.delete(place(job, name))

    for seen in run_on_api(story):
        assert seen["apiVersion"] == job["apiVersion"]
        assert within(seen["spec"]["mpiReplicaSpecs"], job["spec"]["mpiReplicaSpecs"])


@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [
        ("PyTorchJob", "digits", ("pytorchReplicaSpecs", "Worker", "replicas")),
        ("JAXJob", "jax", ("jaxReplicaSpecs", "Worker", "replicas")),
        ("PaddleJob", "paddle", ("paddleReplicaSpecs", "Worker", "replicas")),
        ("TrainingJob", "digits", ("nodes",)),
    ],
)
def test_a_job_is_scaled_by_its_workers(run_on_api, kind, name, path):
    job = sample(kind, name)
    role = "worker" if kind == "TrainingJob" else "Worker"
    status = {"replicaStatuses": {role: {"active": 2, "selector": "a=b"}}}

    async def story(api):
        try:
            await api.post(place(job), job)
            await api.patch(place(job, name, "status"), {"status": status})
            await api.patch(place(job, name, "scale"), {"spec": {"replicas": 3}})
            return await api.get(place(job, name, "scale")), await api.get(place(job, name))
        finally:
            await api.delete(place(job, name))

    scale, scaled = run_on_api(story)
    assert (scale["spec"]["replicas"], scale["status"]) == (3, {"replicas": 2, "selector": "a=b"})
    found = scaled["spec"]
    for part in path:
        found = found[part]
    assert found == 3


def test_a_status_holds_what_the_operator_writes(run_on_api):
    job = sample("PyTorchJob", "elastic")
    condition = {"type": "Running", "status": "True", "reason": "PyTorchJobRunning", "message": "x"}
    condition |= {"lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {
        "conditions": [condition],
        "replicaStatuses": {"Worker": {"active": 1, "selector": "a=b"}},
        "startTime": "2026-01-01T00:00:00Z",
        "windlass": {"generation": 3, "state": "{}", "whatever": [1]},
    }

    async def story(api):
        try:
            await api.post(place(job), job)
            return await api.patch(place(job, "elastic", "status"), {"status": status})
        finally:
            await api.delete(place(job, "elastic"))

    assert run_on_api(story)["status"] == status


@pytest.mark.parametrize(
    ("kind", "change", "sentence"),
    [
        ("XGBoostJob", {"runPolicy": {"managedBy": "windlass.dev/operator"}}, "runPolicy.managedBy cannot be changed"),
        ("XGBoostJob", {"runPolicy": {"managedBy": None}}, "runPolicy.managedBy cannot be changed"),
        ("TFJob", {"runPolicy": {"managedBy": "windlass.dev/operator"}}, "runPolicy.managedBy cannot be changed"),
        ("PyTorchJob", {"runPolicy": {"schedulingPolicy": {"queue": "b"}}}, "cannot be changed"),
        ("MPIJob", {"dialect": "v1"}, "it is the version that the job was made with"),
        ("TrainJob", {"runtimeRef": {"name": "another"}}, "runtimeRef cannot be changed"),
        ("TrainJob", {"managedBy": "windlass.dev/operator"}, "cannot be changed"),
    ],
)
def test_immutable_fields_cannot_be_changed(run_on_api, kind, change, sentence):
    job = sample(kind, {"PyTorchJob": "digits", "MPIJob": "pi"}.get(kind, ""))
    name = job["metadata"]["name"]

    async def story(api):
        try:
            await api.post(place(job), job)
            with pytest.raises(ApiError, match=sentence):
                await api.patch(place(job, name), {"spec": change})
            await api.patch(place(job, name), {"metadata": {"labels": {"other": "change"}}})
        finally:
            await api.delete(place(job, name))

    run_on_api(story)


def test_a_job_of_an_earlier_definition_can_still_be_changed(run_on_api):
    """Rules check only changed fields: a job from before a rule can be ended, and its status written."""
    job = sample("JAXJob")
    broken = copy.deepcopy(job)
    broken["spec"]["jaxReplicaSpecs"]["Worker"]["restartPolicy"] = "Sometimes"
    another = {**broken, "metadata": {**broken["metadata"], "name": "another"}}
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jaxjobs.kubeflow.org"
    where = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/jaxReplicaSpecs"
    policy = f"{where}/additionalProperties/properties/restartPolicy/enum"

    async def story(api):
        enum = (await api.get(definition))["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for part in ("spec", "jaxReplicaSpecs"):
            enum = enum["properties"][part]
        enum = enum["additionalProperties"]["properties"]["restartPolicy"]["enum"]
        try:
            await api.patch(definition, [{"op": "add", "path": f"{policy}/-", "value": "Sometimes"}], "json")
            await until(api, broken, taken=True)
            await api.post(place(broken), broken)
            await api.patch(definition, [{"op": "replace", "path": policy, "value": enum}], "json")
            await until(api, another, taken=False)
            return await api.patch(place(job, "jax"), {"spec": {"runPolicy": {"suspend": True}}})
        finally:
            await api.patch(definition, [{"op": "replace", "path": policy, "value": enum}], "json")
            await api.delete(place(job, "jax"))

    assert run_on_api(story)["spec"]["runPolicy"]["suspend"]


async def until(api, manifest, *, taken):
    """Wait until the API server serves the definition."""
    while True:
        if taken is not bool(await refusal(api, manifest)):
            return
        await asyncio.sleep(0.1)


async def refusal(api, manifest):
    """The message of the refusal; empty if the manifest is accepted."""
    try:
        await api.post(place(manifest), manifest, dryRun="All")
    except ApiError as error:
        if error.status != 422:
            raise
        return str(error)
    return ""

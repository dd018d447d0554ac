"""Fields of a real API server's types, and the handling of unknown fields."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
import write_api_types
import write_pod_schema
import yaml
from cli.cluster_terminal import Ran, Terminal

from deploy.samples import FOLDER
from windlass.jobs.kubernetes.manifests.known_fields.unknown_fields import unknown_fields
from windlass.jobs.syntax.text import read_text
from windlass.jobs.syntax.yaml_tree import compose

JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: typed}
spec:
  runPolicy: {restartMode: gang}
  pytorchReplicaSpecs:
    Worker: {template: {spec: {containers: [{name: pytorch, image: example.com/mnist}]}}}
"""
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/pytorchjobs.kubeflow.org"
MODE = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/runPolicy/properties/restartMode"
JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"


def test_the_file_of_fields_equals_the_api_servers_openapi(run_on_api):
    """After an upgrade of the tests' control plane run tools/write_api_types.py."""
    assert run_on_api(write_api_types.fetch_types) == write_api_types.FILE.read_text()


def test_the_file_of_schemas_equals_the_api_servers_openapi(run_on_api):
    """After an upgrade of the tests' control plane run tools/write_pod_schema.py."""
    assert run_on_api(write_pod_schema.fetch_types) == write_pod_schema.FILE.read_text()


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.yaml")), ids=lambda file: file.stem)
def test_samples_contain_no_unknown_fields(file):
    assert [each for node in compose(read_text(str(file))) for each in unknown_fields(node)] == []


@pytest.fixture
def windlass(with_kinds, tmp_path) -> Callable[..., Ran]:
    """Submit the file `job.yaml`; returns the exit code and the output."""

    def run(manifest: str, *words: str):
        (tmp_path / "job.yaml").write_text(manifest)
        terminal = Terminal(with_kinds.kubeconfig, tmp_path)
        return asyncio.run(terminal("submit", "--on", "kubernetes", *words, "job.yaml"))

    return run


def test_a_misspelt_field_is_refused_and_under_warn_removed(run_on_api, windlass):
    wrong = JOB.replace("runPolicy", "runPolcy")

    ran = windlass(wrong)
    assert ran.code == 2
    assert "job.yaml:5:3: spec.runPolcy: unknown field; did you mean 'runPolicy'?" in ran.err

    ran = windlass(wrong, "--validate", "warn")
    assert ran.code == 0
    assert "runPolicy" not in run_on_api(taken)["spec"]


def test_the_output_of_kubectl_can_be_submitted_again(run_on_api, windlass):
    assert windlass(JOB).code == 0
    kept = run_on_api(taken)
    assert kept["metadata"]["managedFields"]
    assert windlass(json.dumps(kept)).code == 0
    assert run_on_api(taken)["spec"] == kept["spec"]


def test_a_field_that_the_clusters_definition_lacks_is_refused_by_the_api_server(run_on_api, windlass):
    async def lack(api):
        found = await api.get(DEFINITION)
        for part in MODE.removeprefix("/").split("/"):
            found = found[int(part)] if part.isdigit() else found[part]
        await api.patch(DEFINITION, [{"op": "remove", "path": MODE}], "json")
        await until(api, knows=False)
        return found

    kept = run_on_api(lack)
    try:
        ran = windlass(JOB)
        assert ran.code == 2
        assert 'PyTorchJob default/typed cannot be created: unknown field "spec.runPolicy.restartMode"' in ran.err
        assert windlass(JOB, "--validate", "warn").code == 0
        assert run_on_api(taken)["spec"]["runPolicy"] == {}
    finally:
        run_on_api(lambda api: give_back(api, kept))


async def give_back(api, kept):
    await api.patch(DEFINITION, [{"op": "add", "path": MODE, "value": kept}], "json")
    await until(api, knows=True)


async def until(api, *, knows):
    """Wait until the API server serves the definition."""
    while True:
        made = await api.post(JOBS, yaml.safe_load(JOB), dryRun="All", fieldValidation="Ignore")
        if ("restartMode" in made["spec"]["runPolicy"]) is knows:
            return
        await asyncio.sleep(0.1)


async def taken(api):
    """The job, which is deleted afterwards."""
    kept = await api.get(f"{JOBS}/typed")
    await api.delete(f"{JOBS}/typed")
    return kept

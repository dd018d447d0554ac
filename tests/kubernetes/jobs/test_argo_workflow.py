"""The sample Workflow of Argo: valid by Argo's definitions, and its resource template on a real API server.

The job of the template is created as Argo's executor does it. Its conditions are evaluated as Argo evaluates them: a
field of the object against a label selector. Argo's controller does not run here.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from backend_host import Behaviour
from kubernetes_host import JOBS, namespaced
from operator_place import OperatorPlace, leading

import strays
from windlass.controlplane.build import cache_folder
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.toolchain import find_go
from windlass.jobs.kubernetes.manifests.manifest_file import objects_of
from windlass.jobs.syntax.text import Text

ROOT = Path(__file__).parents[3]
WORKFLOW = yaml.safe_load((ROOT / "examples/pipelines/digits_argo.yaml").read_text())
MODULE = "github.com/argoproj/argo-workflows/v3@v3.6.10"
MODULE_SUM = "h1:MFFGzeTXwNKSdDZ5jwQQb26AMGng4bSML38hjxB3Wt0="
DEFINITION = "manifests/base/crds/full/argoproj.io_workflows.yaml"


def template(name: str) -> dict[str, Any]:
    [found] = [each for each in WORKFLOW["spec"]["templates"] if each["name"] == name]
    return found


def job_manifest(**spec: Any) -> dict[str, Any]:
    """The manifest of the resource template with its parameters, and these fields."""
    values = {item["name"]: item["value"] for item in WORKFLOW["spec"]["arguments"]["parameters"]}
    text = template("train")["resource"]["manifest"].replace("{{workflow.name}}", "digits-x7")
    manifest = yaml.safe_load(re.sub(r"\{\{workflow\.parameters\.(\w+)\}\}", lambda name: values[name[1]], text))
    manifest["spec"] |= spec
    return manifest


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The schema of a Workflow, of Argo's Go module."""
    go = find_go(cache_folder())
    folder = tmp_path_factory.mktemp("argo")
    words = [go, "mod", "download", "-json", MODULE]
    ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    found = json.loads(ran.stdout or "{}")
    if "Dir" not in found:
        pytest.skip(f"{MODULE} cannot be downloaded: {found.get('Error', ran.stderr)}")
    assert found["Sum"] == MODULE_SUM
    text = (Path(found["Dir"]) / DEFINITION).read_text()
    definition = yaml.load(text, yaml.CSafeLoader)
    return definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def unknown_fields(value: Any, schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Paths of fields that a structural schema does not have, as an API server prunes them."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from unknown_fields(item, schema.get("items", {}), f"{path}[{number}]")
    elif isinstance(value, dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        for name, item in value.items():
            below = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if below is None and "properties" in schema:
                yield f"{path}.{name}"
            elif isinstance(below, dict):
                yield from unknown_fields(item, below, f"{path}.{name}")


def is_met(condition: str, job: Mapping[str, Any]) -> bool:
    """Whether a condition of a resource template holds for an object."""
    found = re.fullmatch(r"([\w.]+) (?:== (\w+)|in \(([\w, ]+)\))", condition)
    value: Any = job
    for name in found[1].split("."):
        value = (value or {}).get(name)
    return value in ([found[2]] if found[2] else found[3].split(", "))


def test_the_workflow_is_valid_by_the_definitions_of_argo(schema):
    jsonschema.validate(WORKFLOW, schema)
    assert list(unknown_fields({"spec": WORKFLOW["spec"]}, schema)) == []
    broken = {"spec": {**WORKFLOW["spec"], "templates": [{"resource": {"successConditon": "x"}}]}}
    assert list(unknown_fields(broken, schema)) == [".spec.templates[0].resource.successConditon"]


def test_the_job_of_the_template_is_one_that_windlass_reads():
    text = yaml.safe_dump({**job_manifest(), "metadata": {"name": "digits"}})
    pods = [each for each in objects_of(Text("job.yaml", text)).objects if each["kind"] == "Pod"]
    variables = {each["name"]: each.get("value") for each in pods[0]["spec"]["containers"][0]["env"]}
    assert len(pods) == 2
    assert (variables["EPOCHS"], variables["WINDLASS_OUTPUT"]) == ("4", "/data/output")
    assert pods[0]["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": "digits-x7-work"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("behaviour", "end"), [(Behaviour.SUCCEED, "successCondition"), (Behaviour.FAIL, "failureCondition")]
)
def test_the_conditions_of_the_template_meet_the_end_of_the_job(
    apiserver: ControlPlane, tmp_path: Path, behaviour: Behaviour, end: str
):
    resource = template("train")["resource"]

    async def story() -> None:
        async with asyncio.timeout(strays.TIMEOUT_S * 6), leading(apiserver, tmp_path) as place:
            manifest = job_manifest(command=[behaviour.value], image="example.com/job:1", restarts=0, pod={})
            created = await place.api.post(namespaced(JOBS), manifest)
            job = await ended(place, created["metadata"]["name"], resource)
            assert {name: is_met(resource[name], job) for name in ("successCondition", "failureCondition")} == {
                "successCondition": end == "successCondition",
                "failureCondition": end == "failureCondition",
            }
            assert job["status"]["attempts"] == 1

    asyncio.run(story())


async def ended(place: OperatorPlace, name: str, resource: Mapping[str, Any]) -> dict[str, Any]:
    """The job once one of the conditions of the template is met."""
    end = asyncio.get_running_loop().time() + strays.TIMEOUT_S
    while True:
        job = await place.api.get(f"{namespaced(JOBS)}/{name}")
        if is_met(resource["successCondition"], job) or is_met(resource["failureCondition"], job):
            return job
        assert asyncio.get_running_loop().time() < end, job.get("status")
        await asyncio.sleep(0.1)

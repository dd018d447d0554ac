import json
import re

import pytest

from windlass.backends.kubernetes.gangs.stored_state import STATE
from windlass.deploy.crds import DEFAULT, POD_GROUPS, crds, definitions
from windlass.jobs.kubernetes.kinds.registry import KINDS

ALL = crds((*DEFAULT, POD_GROUPS))


def versions():
    return [(crd["metadata"]["name"], version) for crd in ALL for version in crd["spec"]["versions"]]


def schemas(schema):
    """A schema and all schemas in it."""
    yield schema
    parts = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    for part in parts:
        if isinstance(part, dict):
            yield from schemas(part)


def test_every_kind_that_is_read_has_a_definition():
    defined = {(f"{each.group}/{v.name}", each.kind) for each in definitions() for v in each.versions}
    assert {(kind.api_version, kind.name) for kind in KINDS} <= defined


def test_every_definition_has_the_name_by_which_it_is_read():
    plurals = {each.kind: each.plural for each in definitions()}
    assert all(plurals[kind.name] == kind.plural for kind in KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version}-{kind.name}")
def test_kubectl_lists_jobs_with_their_state(kind):
    """Jobs that Kubeflow's operators have ended have conditions, and no state of ours."""
    crd = next(each for each in ALL if each["spec"]["names"]["kind"] == kind.name)
    condition, written = ".status.conditions[-1:].type", f".status.{STATE}"
    wanted = {"kubeflow.org": {"State": condition}, "trainer.kubeflow.org": {"State": written, "Condition": condition}}
    for version in crd["spec"]["versions"]:
        columns = {each["name"]: each["jsonPath"] for each in version["additionalPrinterColumns"]}
        assert wanted.get(crd["spec"]["group"], {"State": written}).items() <= columns.items()
        assert STATE in version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]


def test_no_two_kinds_share_a_short_name():
    short = [name for each in definitions((*DEFAULT, POD_GROUPS)) for name in each.short]
    assert len(short) == len(set(short))


def test_exactly_one_version_is_stored():
    for crd in ALL:
        assert [version["storage"] for version in crd["spec"]["versions"]].count(True) == 1


@pytest.mark.parametrize(("name", "version"), versions(), ids=lambda value: value if isinstance(value, str) else "")
def test_schemas_are_structural(name, version):
    whole = version["schema"]["openAPIV3Schema"]
    for schema in schemas(whole):
        untyped = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
        assert "type" in schema or untyped, schema
        re.compile(schema.get("pattern", ""))
        assert "(?=" not in schema.get("pattern", ""), "the API server's expressions do not look ahead"


def replica_template(plural):
    crd = next(each for each in ALL if each["metadata"]["name"] == f"{plural}.kubeflow.org")
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    [specs] = [each for name, each in spec.items() if name.endswith("ReplicaSpecs")]
    return specs["additionalProperties"]["properties"]["template"]


OPAQUE = {"ephemeralContainers", "managedFields"}


def open_parts(schema, path=""):
    """Paths of objects in which any field is accepted."""
    if schema.get("x-kubernetes-preserve-unknown-fields") and schema.get("type") == "object":
        yield path
    for name, each in schema.get("properties", {}).items():
        yield from open_parts(each, f"{path}.{name}")
    if isinstance(schema.get("items"), dict):
        yield from open_parts(schema["items"], path)


@pytest.mark.parametrize("plural", ["pytorchjobs", "tfjobs", "jaxjobs", "xgboostjobs", "paddlejobs", "mpijobs"])
def test_a_pod_template_is_closed(plural):
    assert {path.rpartition(".")[2] for path in open_parts(replica_template(plural))} == OPAQUE


def test_each_field_of_a_container_is_described():
    template = replica_template("pytorchjobs")["properties"]["spec"]["properties"]
    fields = template["containers"]["items"]["properties"]
    assert [name for name, each in {**template, **fields}.items() if not each.get("description")] == []


def test_a_part_of_a_template_requires_nothing_and_accepts_null():
    crd = next(each for each in ALL if each["metadata"]["name"] == "trainingjobs.windlass.dev")
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    for part in (spec["pod"], spec["roles"]["additionalProperties"]["properties"]["pod"]):
        container = part["properties"]["spec"]["properties"]["containers"]["items"]
        assert not [each for each in schemas(part) if each.keys() & {"required", "default"}]
        assert all(each["nullable"] for each in container["properties"].values())


def test_both_versions_of_an_mpi_job_have_the_same_fields():
    crd = next(each for each in ALL if each["metadata"]["name"] == "mpijobs.kubeflow.org")
    v1, v2 = (each["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] for each in crd["spec"]["versions"])
    assert v1.keys() == v2.keys()
    assert [each["dialect"]["default"] for each in (v1, v2)] == ["v1", "v2beta1"]


def test_definitions_fit_their_limits():
    """Limits: for one, 1.5 MiB of etcd and 256 KiB of the annotation of client-side apply; for all, 1 MiB."""
    sizes = {crd["metadata"]["name"]: len(json.dumps(crd, separators=(",", ":"))) for crd in ALL}
    assert max(sizes.values()) < 200_000, sizes
    assert sum(sizes.values()) < 2**20, sizes

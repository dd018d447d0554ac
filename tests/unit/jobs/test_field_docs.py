"""Documents made from the tables of fields: help, schema and reference page."""

from pathlib import Path

import pytest

from windlass.deploy.own_kinds import own_kinds
from windlass.hardware.network.profiles import NAMES
from windlass.jobs.cluster.cluster_file import CLUSTER
from windlass.jobs.description.fields import JOB, walk
from windlass.jobs.description.job_file import loads
from windlass.jobs.description.rendering import render
from windlass.jobs.errors import InputError
from windlass.jobs.field_docs.field_help import explain
from windlass.jobs.field_docs.json_schema import DIALECT, schema
from windlass.jobs.field_docs.reference_page import reference

PAGE = Path(__file__).parents[3] / "docs/reference/job-file.md"


def test_a_field_is_explained():
    assert explain("job.gpus") == (
        "job.gpus  <whole number from 0 to 1024>\n\n"
        "GPUs of each node (replica).\n\n"
        "DEFAULT  0\n"
        "EXAMPLE  gpus: 4\n"
        "OPTION   -G, --gpus\n"
    )


def test_a_field_with_fields_lists_them():
    assert "  backoff_max           <duration>" in explain("restart").splitlines()
    assert "  replicas     <whole number from 1 to 100000>" in explain("roles.ps").splitlines()


def test_every_field_can_be_explained():
    for path, field in walk(JOB):
        assert explain(f"job.{path}").startswith(f"job.{path}  <")
        assert f"  {field.name} " in explain(path.rpartition(".")[0])


def test_the_name_of_a_role_may_stand_in_a_path():
    assert explain("roles.ps.gpus").startswith("job.roles.ps.gpus  <")


def properties(schema, path=()):
    """Every field of a kind's definition: its path. Those of pods are Kubernetes', which kubectl explains."""
    for name, inner in schema.get("properties", {}).items():
        yield (*path, name)
        named = inner.get("additionalProperties")
        in_roles = name == "roles" and path in ((), ("jobTemplate", "spec"))
        parts = [inner, inner.get("items"), named if in_roles else None] if name != "pod" else []
        for part in parts:
            if isinstance(part, dict):
                yield from properties(part, (*path, name, *(["NAME"] if part is named else [])))


@pytest.mark.parametrize("kind", own_kinds(), ids=lambda kind: kind.kind)
def test_every_field_of_our_own_kinds_can_be_explained(kind):
    name = kind.kind.lower()
    paths = [path for path in properties(kind.versions[0].spec) if path[-1] != "array"]  # refused, with why
    assert len(paths) > 5
    for path in paths:
        assert explain(".".join((name, "spec", *path))).startswith(f"{name}.spec.{'.'.join(path)}  <")
    assert kind.versions[0].about in " ".join(explain(kind.plural).split())


def test_a_name_of_a_field_and_a_kind_is_the_field_and_mentions_the_kind():
    assert explain("queue").startswith("job.queue  <name of a queue>")
    assert "KIND     windlass explain queues tells of the kind" in explain("queue")
    assert explain("queues") == explain("Queue")
    assert explain("queue.quota") == explain("queue.spec.quota")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("queue.quot", "queue.spec: has no field 'quot'; did you mean 'quota'?"),
        ("job.gpu", "job: has no field 'gpu'; did you mean 'gpus'?"),
        ("job.restart.usr", "job.restart: has no field 'usr'; did you mean 'user'?"),
        ("nodes.x", "job.nodes: has no fields of its own, so no 'x'"),
    ],
)
def test_an_unknown_field_gets_the_nearest(path, message):
    with pytest.raises(InputError) as error:
        explain(path)
    assert str(error.value) == message


def test_every_field_has_a_sentence_and_an_example():
    for path, field in [*walk(JOB), *walk(CLUSTER)]:
        assert field.help.endswith("."), path
        assert field.example, path


def test_every_option_belongs_to_one_field():
    flags = [flag for field in JOB for flag in field.flags]
    assert len(flags) == len(set(flags))


def test_the_schema_describes_every_field():
    assert schema()["$schema"] == DIALECT
    assert list(schema()["properties"]) == [field.name for field in JOB]
    for field in JOB:
        assert schema()["properties"][field.name]["description"].startswith(field.help)


def test_the_reference_page_is_up_to_date(request):
    if request.config.getoption("--rewrite"):
        PAGE.write_text(reference(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == reference(), "run this test with --rewrite"


def test_render_fills_in_every_default():
    (submission,) = loads("command: python train.py\nworkdir: /srv\ngpus: 2\n")
    assert render(submission) == (Path(__file__).parent / "rendered.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_each_network_profile_has_a_page_that_the_field_names(name: str):
    assert explain(f"network.{name}").startswith(f"network {name}\n")
    assert explain(f"job.network.{name}") == explain(f"network.{name}")
    assert f"windlass explain network.{name}\n" in explain("network")


def test_an_unknown_network_profile_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match=r"has no profile 'foo'; profiles: efa, infiniband, roce, roce-sriov, tcp"):
        explain("network.foo")

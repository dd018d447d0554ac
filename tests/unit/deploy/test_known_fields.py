"""Definitions have the fields against which manifests are checked."""

import pytest

from windlass.deploy.crds import definitions
from windlass.jobs.kubernetes.manifests.known_fields.types import KINDS, known_types

ALL = [
    (version.spec, KINDS[f"{each.group}/{version.name}", each.kind])
    for each in definitions()
    for version in each.versions
    if (f"{each.group}/{version.name}", each.kind) in KINDS
]


def differing(schema, shape, path):
    """Fields that only one side has. An open object of a definition keeps more fields than it names."""
    if shape.startswith("["):
        yield from differing(schema.get("items", {}), shape[1:-1], path)
    elif shape.startswith("{"):
        yield from differing(schema.get("additionalProperties", {}), shape[1:-1], path)
    elif shape and "properties" in schema:
        properties, fields = schema["properties"], known_types()[shape].fields
        opaque = "x-kubernetes-preserve-unknown-fields" in schema
        missing = (
            set() if opaque else fields.keys() - properties.keys() - {"name"}
        )  # of job files: an object has a name in its metadata
        yield from (f"{path}.{name}" for name in (properties.keys() - fields.keys()) | missing)
        for name in properties.keys() & fields.keys():
            yield from differing(properties[name], fields[name], f"{path}.{name}")


@pytest.mark.parametrize(("spec", "kind"), ALL, ids=[kind for _, kind in ALL])
def test_a_definition_has_the_fields_that_manifests_are_checked_against(spec, kind):
    assert list(differing(spec, known_types()[kind].fields["spec"], "spec")) == []


def test_every_kind_of_job_is_compared():
    assert {kind for _, kind in ALL} >= {"PyTorchJob", "TFJob", "MPIJob", "TrainJob", "TrainingJob", "TrainingRuntime"}

"""The call of a function in a Secret, and the job whose pods read it."""

from __future__ import annotations

import base64
import json

from windlass import wire
from windlass.backends.kubernetes.client.resources import CONFIG_MAPS, SECRETS
from windlass.backends.kubernetes.gangs.repeated_object import shipped_objects
from windlass.core.model.job import Job, Role
from windlass.jobs.kubernetes.kinds.registry import read
from windlass.jobs.kubernetes.manifests.trainingjob_manifest import training_job
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.pods.call_secret import call_of, call_secret, with_call_secret
from windlass.jobs.kubernetes.pods.code_archive import File, pack, with_code

CALL = '{"args": ["hunter2"]}'
JOB = Job("f", (Role(image="i", command=("python",), env={wire.CALL: CALL, "A": "1"}),), workdir="", user="ada")


def test_the_object_of_a_job_holds_no_argument_and_its_pods_read_the_call():
    private = with_call_secret(JOB, "call-1")
    manifest = training_job(private, "f-1", "ml")
    assert "hunter2" not in json.dumps(manifest)
    parsed = read(manifest)
    assert isinstance(parsed, ParsedJob)
    (container,) = parsed.replicas[0].template["spec"]["containers"]
    variables = {each["name"]: each for each in container["env"]}
    assert variables[wire.CALL]["valueFrom"] == {"secretKeyRef": {"name": "call-1", "key": "call"}}
    assert parsed.job.roles[0].env == {"A": "1"}


def test_the_secret_holds_the_call_and_is_owned_by_the_job():
    made = call_secret("call-1", "ml", CALL, [{"kind": "TrainingJob", "name": "f-1", "uid": "u"}])
    assert base64.b64decode(made["data"]["call"]).decode() == CALL
    assert made["metadata"]["ownerReferences"][0]["name"] == "f-1"
    assert made["immutable"]


def test_a_job_of_a_command_has_no_call():
    assert call_of(Job("f", (Role(),), workdir="", user="ada")) == ""
    assert call_of(JOB) == CALL


def test_a_second_run_keeps_the_code_and_the_call_of_the_first():
    packed = pack([File("train.py", b"pass")])
    manifest = training_job(with_code(with_call_secret(JOB, "call-1"), packed), "f-1", "ml")
    parsed = read(manifest)
    assert isinstance(parsed, ParsedJob)
    assert shipped_objects(parsed) == {(CONFIG_MAPS, packed.name), (SECRETS, "call-1")}

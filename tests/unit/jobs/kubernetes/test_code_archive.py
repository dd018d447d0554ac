"""Code that is shipped with a job."""

import base64
import hashlib
import io
import tarfile
from pathlib import PurePosixPath

from windlass.core.model.job import Job, Role
from windlass.jobs.kubernetes.kinds.registry import members, read
from windlass.jobs.kubernetes.manifests.trainingjob_manifest import training_job
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.pods.code_archive import File, config_map, image_of, pack, size_fault, with_code
from windlass.jobs.syntax.yaml_tree import canonical

TRAIN = File("train.py", b"print('hello')\n")
START = File("bin/start", b"#!/bin/sh\n", executable=True)


def job(pod: object = None, image: str = "example.com/base:1") -> Job:
    role = Role(command=("python", "train.py"), image=image, pod=canonical(pod) if pod else "")
    return Job("digits", (role,), workdir="")


def pod_of(shipped: Job) -> dict:
    parsed = read(training_job(shipped, "digits", "team"))
    assert isinstance(parsed, ParsedJob), parsed
    return members(parsed, 1)[0].pod


def test_equal_folders_make_equal_archives_in_any_order_of_reading():
    one, other = pack([TRAIN, START]), pack([START, TRAIN])

    assert one == other
    assert one.name == other.name
    assert one.name != pack([TRAIN]).name


def test_an_archive_holds_every_file_and_no_owner():
    with tarfile.open(fileobj=io.BytesIO(pack([TRAIN, START]).archive)) as archive:
        found = {each.name: (each.mode, each.uid, each.uname, archive.extractfile(each).read()) for each in archive}

    assert found == {
        "train.py": (0o644, 0, "", TRAIN.content),
        "bin/start": (0o755, 0, "", START.content),
    }


def test_the_object_holds_the_archive_and_has_the_job_as_owner():
    packed = pack([TRAIN])
    owner = {"apiVersion": "windlass.dev/v1alpha1", "kind": "TrainingJob", "name": "digits", "uid": "u"}

    made = config_map(packed, "team", [owner])

    assert base64.b64decode(made["binaryData"]["code.tar.gz"]) == packed.archive
    assert made["immutable"]
    assert made["metadata"]["namespace"] == "team"
    assert made["metadata"]["ownerReferences"] == [owner]


def test_every_pod_unpacks_the_code_before_its_program_starts_there():
    packed = pack([TRAIN])

    spec = pod_of(with_code(job(), packed, PurePosixPath("digits")))["spec"]

    unpack, main = spec["initContainers"][0], spec["containers"][0]
    assert unpack["image"] == main["image"] == "example.com/base:1"
    assert main["workingDir"] == "/windlass/code/digits"
    assert {"name": "windlass-code", "mountPath": "/windlass/code"} in main["volumeMounts"]
    assert {"name": "windlass-packed", "configMap": {"name": packed.name}} in spec["volumes"]


def test_the_pod_template_of_a_job_stays():
    own = {
        "spec": {
            "initContainers": [{"name": "fetch", "image": "example.com/fetch"}],
            "containers": [
                {"name": "main", "image": "example.com/own", "volumeMounts": [{"mountPath": "/d", "name": "d"}]}
            ],
            "volumes": [{"name": "d", "emptyDir": {}}],
        }
    }

    spec = pod_of(with_code(job(own, image=""), pack([TRAIN])))["spec"]

    assert [each["name"] for each in spec["initContainers"]] == ["windlass-code", "fetch"]
    assert {each["image"] for each in (spec["initContainers"][0], spec["containers"][0])} == {"example.com/own"}
    assert {each["name"] for each in spec["volumes"]} == {"d", "windlass-code", "windlass-packed"}


def test_the_image_is_that_of_the_pod_if_it_has_one():
    named = {"spec": {"containers": [{"name": "main", "image": "own"}]}}

    assert image_of(job(named).roles[0]) == "own"
    assert image_of(job().roles[0]) == "example.com/base:1"
    assert image_of(job(image="").roles[0]) == ""


def test_a_folder_that_is_too_large_is_reported_with_its_largest_files():
    noise = hashlib.shake_256(b"noise").digest(3 << 20)

    text = size_fault(pack([TRAIN, File("data/train.npy", noise)]))

    assert text.startswith("the code is 3 MiB packed, 2 MiB above the limit of 1 MiB; largest: data/train.npy 3 MiB")
    assert size_fault(pack([TRAIN])) == ""

"""Notebooks of Kubeflow: read as gangs of one, with the pod and the Service of the notebook controller."""

from __future__ import annotations

import re
from typing import Any

import pytest

from windlass.jobs.kubernetes.job_patches import STOPPED, action_patch
from windlass.jobs.kubernetes.kinds.registry import dependent_objects, faults_of, members, read
from windlass.jobs.kubernetes.parsed_job import ParsedJob


def notebook(version: str = "v1", annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "lesson", "image": "jupyter", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    about = {"name": "lesson", "namespace": "team", "uid": "u1", "labels": {"app": "lesson"}}
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "Notebook",
        "metadata": {**about, "annotations": annotations or {}},
        "spec": {"template": {"spec": {"containers": [container], **spec}}},
    }


def parsed(*args: Any, **kwargs: Any) -> ParsedJob:
    found = read(notebook(*args, **kwargs))
    assert isinstance(found, ParsedJob), found
    return found


def test_both_versions_are_preemptible_gangs_of_one():
    for version in ("v1", "v1beta1"):
        job = parsed(version).job
        (role,) = job.roles
        assert (role.replicas, role.resources["gpu"], job.preemptible, job.suspend) == (1, 1, True, False)


def test_the_pod_is_that_of_the_notebook_controller():
    volume = {"name": "work", "persistentVolumeClaim": {"claimName": "lesson-work"}}
    (member,) = members(parsed(volumes=[volume]), 3)
    spec, about = member.pod["spec"], member.pod["metadata"]
    (container,) = spec["containers"]
    assert member.name == "lesson-0"
    assert {"app": "lesson", "statefulset": "lesson", "notebook-name": "lesson"}.items() <= about["labels"].items()
    assert (container["workingDir"], container["ports"][0]["containerPort"]) == ("/home/jovyan", 8888)
    assert container["env"] == [{"name": "NB_PREFIX", "value": "/notebook/team/lesson"}]
    assert (spec["restartPolicy"], spec["securityContext"], spec["volumes"]) == ("Always", {"fsGroup": 100}, [volume])
    assert spec["schedulerName"] == "windlass"


def test_the_service_has_the_name_of_the_notebook_also_while_it_is_stopped():
    for about in ({}, {STOPPED: "2026-01-01T00:00:00Z"}):
        (service,) = dependent_objects(parsed(annotations=about))
        assert service["metadata"]["name"] == "lesson"
        assert service["spec"]["selector"] == {"statefulset": "lesson"}
        assert [(each["name"], each["port"], each["targetPort"]) for each in service["spec"]["ports"]] == [
            ("http-lesson", 80, 8888)
        ]


@pytest.mark.parametrize("name", ["x" * 61, "x" * 57 + "-xxx"])
def test_the_port_of_a_long_name_fits_a_service(name: str):
    long = notebook()
    long["metadata"]["name"] = name
    found = read(long)
    assert isinstance(found, ParsedJob), found
    (service,) = dependent_objects(found)
    (port,) = service["spec"]["ports"]
    assert re.fullmatch("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", port["name"])


def test_own_ports_folder_and_security_context_stay():
    container = {"name": "a", "image": "b", "workingDir": "/w", "ports": [{"containerPort": 80}]}
    found = parsed(containers=[container], securityContext={"fsGroup": 5})
    (member,) = members(found, 1)
    assert member.pod["spec"]["securityContext"] == {"fsGroup": 5}
    assert (member.pod["spec"]["containers"][0]["workingDir"], dependent_objects(found)[0]["spec"]["ports"][0]) == (
        "/w",
        {"name": "http-lesson", "port": 80, "targetPort": 80, "protocol": "TCP"},
    )


def test_the_annotation_stops_a_notebook_and_windlass_suspend_writes_it():
    assert parsed(annotations={STOPPED: ""}).job.suspend
    assert action_patch("suspend", "Notebook", "eve") == {"metadata": {"annotations": {STOPPED: "eve"}}}
    assert action_patch("resume", "Notebook", "eve") == {"metadata": {"annotations": {STOPPED: None}}}


def test_faults_have_their_paths():
    bad = notebook(containers=[{"name": "a"}])
    bad["metadata"]["name"] = "x" * 62
    assert [(".".join(map(str, each.path)), each.message) for each in faults_of(bad)] == [
        ("metadata.name", "expects small letters, digits and dashes, a letter first, at most 61 characters"),
        ("spec.template.spec.containers.0.image", "expects the container's image"),
    ]

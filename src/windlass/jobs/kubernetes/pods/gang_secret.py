"""The Secret of a TrainingJob, by which its ranks prove themselves to each other (`WINDLASS_GANG_SECRET`).

Where the operator leads the agents of a job, agents get a secret from it, and there is no object.
"""

from __future__ import annotations

from windlass import wire
from windlass.core.model.job import Job
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.pods.pod_assembly import EnvVar, metadata, secret_name

SECRET_TYPE = "windlass.dev/gang-secret"  # noqa: S105 - the type of an object
SECRET_KEY = "secret"  # noqa: S105 - the name of a field
_NAME = "gang"


def needs_secret(job: Job) -> bool:
    """Tells whether a job may have more than one rank."""
    return len(job.roles) > 1 or any(role.elastic or role.replicas * role.procs > 1 for role in job.roles)


def gang_secret_object(parsed: ParsedJob) -> Manifest:
    """The Secret, without data: the backend adds a random value when it creates the object."""
    about = metadata(parsed, secret_name(parsed, _NAME), {})
    return {"apiVersion": "v1", "kind": "Secret", "metadata": about, "type": SECRET_TYPE, "data": {SECRET_KEY: ""}}


def gang_secret_variable(parsed: ParsedJob) -> EnvVar:
    """The variable of a rank with the secret, which viewers of the pod do not see."""
    reference = {"name": secret_name(parsed, _NAME), "key": SECRET_KEY}
    return {"name": wire.GANG_SECRET, "valueFrom": {"secretKeyRef": reference}}

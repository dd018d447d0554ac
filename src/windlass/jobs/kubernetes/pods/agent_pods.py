"""Pods whose ranks an agent starts: injected as one file, or part of the image.

An init container of the operator's image packs the file into a volume that the pod's container mounts. Its requests
are small, and a restricted namespace allows it. Where the operator leads the agents, the container also mounts a token
by which its agent proves to be in this pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from windlass import wire
from windlass.jobs.description.agent_command import AGENT_SOURCES, under_agent
from windlass.jobs.kubernetes.labels import AGENT
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestField
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.pods.container_security import RESTRICTED
from windlass.jobs.kubernetes.pods.pod_assembly import EnvVar, env_vars, with_additions, with_env
from windlass.jobs.kubernetes.settings import Settings

INJECT, IMAGE = AGENT_SOURCES
FOLDER = "/windlass/agent"
FILE = f"{FOLDER}/agent.pyz"
_NAME = "windlass-agent"
"""Name of the container and of the volume."""
_SMALL_REQUESTS = {"cpu": "250m", "memory": "256Mi"}
_RESOURCES = {"requests": _SMALL_REQUESTS, "limits": _SMALL_REQUESTS}
"""Requests equal limits, so that a pod of the QoS class Guaranteed stays in it."""
_TERMINATION_LOG = "/dev/termination-log"
AUDIENCE = "agents.windlass.dev"
"""The only audience of an agent's token: the API server and others refuse it."""
_TOKEN_VOLUME = "windlass-agent-token"  # noqa: S105 - a volume's name
_TOKEN_FOLDER = "/var/run/secrets/windlass.dev/agent"  # noqa: S105 - a path
_TOKEN_FILE = "token"  # noqa: S105 - a file's name
_TOKEN_LIFE_S = 3_600
"""Seconds for which a token is valid; the kubelet replaces it before it expires."""


def requested_agent(manifest: ManifestField) -> str:
    """Source of the agent that an annotation requests on a foreign kind; "" without one. Raises ManifestError."""
    source = manifest["metadata"]["annotations"][AGENT]
    return source.choice(AGENT_SOURCES, "") if source.text() else ""


def with_agent(
    template: Mapping[str, Any], container: str, way: str, settings: Settings, where: ManifestField, procs: str = ""
) -> Manifest:
    """The template with the agent in the place of its container's command. Raises ManifestError at `where`.

    `procs`: see `under_agent`.
    """
    spec = template["spec"]
    try:
        containers = [_started(each, way, procs) if each["name"] == container else each for each in spec["containers"]]
    except ValueError as error:
        where.refuse(str(error))
    made = {**spec, "containers": containers}
    if way == INJECT:
        made = with_additions(made, initContainers=[_packer(settings)], volumes=[{"name": _NAME, "emptyDir": {}}])
    return {**template, "spec": _with_token(made, container) if settings.agent_endpoint else made}


def with_membership(spec: Manifest, parsed: ParsedJob, container: str, pod: str) -> Manifest:
    """Returns the spec of one pod with the variables by which its agent joins the rendezvous."""
    if not parsed.settings.agent_endpoint:
        return spec
    return with_env(spec, _membership(parsed, container, spec, pod), container)


def _started(container: Mapping[str, Any], way: str, procs: str) -> Manifest:
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    agent = under_agent(words, (FILE,) if way == INJECT else ("-m", "windlass.agent"), procs)
    place = "command" if container.get("command") else "args"  # arguments alone are for the image's own entry point
    made = {name: value for name, value in container.items() if name not in ("command", "args")} | {place: list(agent)}
    return with_additions(made, volumeMounts=[{"name": _NAME, "mountPath": FOLDER}]) if way == INJECT else made


def _packer(settings: Settings) -> Manifest:
    """The init container that packs the agent; the entry point of the operator's image is `windlass`."""
    return {
        "name": _NAME,
        "image": settings.agent_image,
        "args": ["agent", "pack", "--to", FILE],
        "env": env_vars({"TMPDIR": FOLDER}),
        "resources": _RESOURCES,
        "volumeMounts": [{"name": _NAME, "mountPath": FOLDER}],
        "securityContext": dict(RESTRICTED),
    }


def _membership(parsed: ParsedJob, container: str, spec: Manifest, pod: str) -> Sequence[EnvVar]:
    main = next(each for each in spec["containers"] if each["name"] == container)
    variables = {
        wire.CONTROLLER: parsed.settings.agent_endpoint,
        wire.CONTROLLER_AUTHORITY: parsed.settings.agent_authority,
        wire.AGENT_NAME: f"{parsed.namespace}/{pod}",
        wire.AGENT_TOKEN_FILE: f"{_TOKEN_FOLDER}/{_TOKEN_FILE}",
        wire.TERMINATION_MESSAGE_PATH: main.get("terminationMessagePath") or _TERMINATION_LOG,
    }
    return env_vars(variables)


def _with_token(spec: Manifest, container: str) -> Manifest:
    """The spec with a token of the pod in a volume, which the container mounts."""
    token = {"audience": AUDIENCE, "expirationSeconds": _TOKEN_LIFE_S, "path": _TOKEN_FILE}
    volume = {"name": _TOKEN_VOLUME, "projected": {"sources": [{"serviceAccountToken": token}]}}
    mount = {"name": _TOKEN_VOLUME, "mountPath": _TOKEN_FOLDER, "readOnly": True}
    containers = [
        with_additions(each, volumeMounts=[mount]) if each["name"] == container else each for each in spec["containers"]
    ]
    return with_additions({**spec, "containers": containers}, volumes=[volume])

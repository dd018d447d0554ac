"""The API server's record of requests, and what is kept of it when the server is not needed any more."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import yaml

from windlass.controlplane.cluster import Settings

FOLDER_VARIABLE = "WINDLASS_TEST_CALLS"
"""Environment variable: the folder into which the processes of a test session write the calls of their servers."""
_LOG = "audit"


@dataclass(frozen=True, slots=True, order=True)
class Call:
    """Requests of one kind. `resource` contains the subresource: "pods/binding"."""

    user: str
    agent: str
    """The first word of the client's name of itself."""
    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    granted: bool
    """Whether the user's roles allowed it."""


def recorded(settings: Settings, folder: Path, users: Sequence[str]) -> Settings:
    """Settings of an API server that records every request of these users in a folder, without its body."""
    rules = [{"level": "Metadata", "users": list(users)}, {"level": "None"}]
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}
    file = folder / "audit-policy.yaml"
    file.write_text(yaml.safe_dump(policy))
    flags = [f"--audit-policy-file={file}", f"--audit-log-path={folder / _LOG}.log"]
    return replace(settings, apiserver_flags=[*settings.apiserver_flags, *flags])


def keep_calls(folder: Path) -> None:
    """Writes the calls that a server has recorded where the session's report finds them."""
    session = os.environ.get(FOLDER_VARIABLE)
    calls = recorded_calls(folder.glob(f"{_LOG}*.log")) if session else set()
    if session and calls:
        Path(session, f"{uuid.uuid4().hex}.json").write_bytes(orjson.dumps([astuple(each) for each in sorted(calls)]))


def kept_calls(session: Path) -> set[Call]:
    """All calls of a session."""
    return {Call(*each) for file in session.glob("*.json") for each in orjson.loads(file.read_bytes())}


def recorded_calls(logs: Iterable[Path]) -> set[Call]:
    """The distinct calls in audit logs; requests for paths that are no resources are left out."""
    return {_call(each) for each in _events(logs) if "objectRef" in each}


def _is_refused(event: dict[str, Any]) -> bool:
    return event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"


def _events(logs: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for log in logs:
        with log.open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):  # a killed server may have written part of the last one
                    yield orjson.loads(line)


def _call(event: dict[str, Any]) -> Call:
    of = event["objectRef"]
    resource = "/".join(filter(None, (of.get("resource", ""), of.get("subresource", ""))))
    agent = event.get("userAgent", "").partition("/")[0]
    group, namespace, name = of.get("apiGroup", ""), of.get("namespace", ""), of.get("name", "")
    return Call(
        user=event["user"]["username"],
        agent=agent,
        verb=event["verb"],
        group=group,
        resource=resource,
        namespace=namespace,
        name=_kept(name, resource),
        granted=not _is_refused(event),
    )


def _kept(name: str, resource: str) -> str:
    """The object's name where roles may depend on it; every pod's would make each request a call of its own."""
    return name if resource in ("apiservices", "leases", "secrets") else ""

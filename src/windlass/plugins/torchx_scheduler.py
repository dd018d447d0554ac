"""The scheduler `windlass` of TorchX: an app becomes one job, submitted to the daemon of this machine or to a cluster.

TorchX finds it by the entry point `torchx.schedulers`. An app id is the id of the job, with ":" in place of "/".
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from torchx.schedulers.api import DescribeAppResponse, ListAppResponse, Scheduler, Stream
from torchx.specs import (
    AppDef,
    AppDryRunInfo,
    AppState,
    ReplicaStatus,
    Resource,
    Role,
    RoleStatus,
    runopts,
)
from torchx.specs.finder import ComponentValidationException

from windlass.client.client import Client
from windlass.client.errors import JobRefusedError, NoSuchJobError, WindlassError, WindlassWarning
from windlass.client.records import JobInfo, OutputLine
from windlass.jobs.imported_file import import_file
from windlass.jobs.imports.job_text import job_text
from windlass.jobs.syntax.text import Text

_STATES: Mapping[str, AppState] = {
    "Created": AppState.SUBMITTED,
    "Queued": AppState.PENDING,
    "Admitted": AppState.PENDING,
    "Suspended": AppState.PENDING,
    "Running": AppState.RUNNING,
    "Restarting": AppState.RUNNING,
    "Succeeded": AppState.SUCCEEDED,
    "Failed": AppState.FAILED,
}
_STREAMS = {Stream.STDOUT: "out", Stream.STDERR: "err"}
_FIELDS = ("queue", "priority", "time")
"""Options of a run that are fields of the job."""
_DEFAULT_IMAGE = ".*: image has no effect on this machine"
"""The warning of a field that TorchX itself sets."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A job as it would be submitted, and the losses of its app as text."""

    fields: Mapping[str, Any]
    text: str
    target: str
    namespace: str


class WindlassScheduler(Scheduler):
    """A scheduler of TorchX. Jobs are found on the target of the command line; `-cfg target=…` submits to another."""

    def __init__(self, session_name: str) -> None:
        super().__init__("windlass", session_name)
        self._clients: dict[tuple[str, str], Client] = {}

    def _run_opts(self) -> runopts:
        options = runopts()
        options.add("target", type_=str, default="", help="local, kubernetes, or a context of the kubeconfig")
        options.add("namespace", type_=str, default="", help="namespace on a cluster")
        options.add("queue", type_=str, default="", help="queue of the job")
        options.add("priority", type_=int, default=0, help="priority of the job")
        options.add("time", type_=str, default="", help="time limit, such as 1h30m")
        return options

    def _submit_dryrun(self, app: AppDef, cfg: Mapping[str, Any]) -> AppDryRunInfo:
        given = {name: cfg[name] for name in _FIELDS if cfg.get(name)}
        source = f"app {app.name}"
        [job] = import_file(Text(source, json.dumps(asdict(app), indent=1, default=str))).jobs
        named = _with_named_roles(job.fields, app)
        text = job_text(type(job)({**named, **given}, job.losses), app.name, "app of TorchX")
        request = JobRequest({**named, **given}, text, cfg.get("target") or "", cfg.get("namespace") or "")
        return AppDryRunInfo(request, lambda each: each.text)

    def schedule(self, dryrun_info: AppDryRunInfo) -> str:
        """Submits the job and returns its app id. Raises ComponentValidationException, which `torchx run` prints."""
        request = dryrun_info.request
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", _DEFAULT_IMAGE, WindlassWarning)
            try:
                job = self._client(request.target, request.namespace).submit(dict(request.fields))
            except WindlassError as error:
                raise ComponentValidationException(_describe_error(error)) from error
        return _app_id(job.id)

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Describes a job; None if there is none of this id."""
        try:
            info = self._client().get(_job_id(app_id))
        except NoSuchJobError:
            return None
        roles = [_role(each) for each in (info.details.get("spec") or {}).get("roles", ())]
        return DescribeAppResponse(
            app_id=app_id,
            state=_state(info),
            num_restarts=max(0, info.attempts - 1),
            msg=info.message,
            roles=roles,
            roles_statuses=[_role_status(role, info) for role in roles],
        )

    def list(self) -> list[ListAppResponse]:
        """Lists the jobs of the target, those that have ended too."""
        jobs = self._client().list(ended=True)
        return [ListAppResponse(app_id=_app_id(each.id), state=_state(each)) for each in jobs]

    def _cancel_existing(self, app_id: str) -> None:
        if not self._client().get(_job_id(app_id)).has_ended:
            self._client().cancel(_job_id(app_id))

    def log_iter(
        self,
        app_id: str,
        role_name: str,
        k: int = 0,
        regex: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        should_tail: bool = False,  # noqa: FBT001, FBT002
        streams: Stream | None = None,
    ) -> Iterator[str]:
        """Yields the output of one replica. `should_tail`: until the job has ended."""
        pattern = re.compile(regex or "")
        rank = self._rank(_job_id(app_id), role_name, k)
        for line in self._client().logs(_job_id(app_id), follow=should_tail, ranks=[rank]):
            if _is_within(line, since, until) and _is_selected(line, streams) and pattern.search(line.text):
                yield f"{line.text}\n"

    def _rank(self, job_id: str, role_name: str, replica: int) -> int:
        """The process of a replica: those of earlier roles come first. Raises ValueError for an unknown role."""
        first = 0
        roles = (self._client().get(job_id).details.get("spec") or {}).get("roles", ())
        for role in roles:
            if role["name"] == role_name:
                return first + replica
            first += role["replicas"]
        raise ValueError(f"{job_id} has no role {role_name}; its roles are {', '.join(each['name'] for each in roles)}")

    def _client(self, target: str = "", namespace: str = "") -> Client:
        found = self._clients.get((target, namespace))
        if found is None:
            found = self._clients[target, namespace] = Client(target or None, namespace=namespace)
            self._clients.setdefault(("", ""), found)
        return found

    def close(self) -> None:
        """Closes the connections; jobs go on."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()


def _describe_error(error: WindlassError) -> str:
    """The text of an error; of a refusal for want of CPUs with the options of components."""
    is_cpu = isinstance(error, JobRefusedError) and re.search(r"[0-9] cpu\b", error.message)
    hint = "\nTorchX reserves CPUs by default, 2 for each replica of dist.ddp: lower --cpu, such as --cpu 1"
    return f"{error}{hint if is_cpu else ''}"


def create_scheduler(session_name: str, **_ignored: object) -> WindlassScheduler:
    """The entry point of TorchX."""
    return WindlassScheduler(session_name)


def _app_id(job_id: str) -> str:
    return job_id.replace("/", ":")


def _job_id(app_id: str) -> str:
    return app_id.replace(":", "/")


def _with_named_roles(fields: Mapping[str, Any], app: AppDef) -> Mapping[str, Any]:
    """Fields in which a single role has its own name, by which TorchX finds its output."""
    if "roles" in fields:
        return fields
    of_job = {name: fields[name] for name in ("name", "restarts", "launcher") if name in fields}
    role = {"replicas" if name == "nodes" else name: value for name, value in fields.items() if name not in of_job}
    return {**of_job, "roles": {app.roles[0].name: role}}


def _state(info: JobInfo) -> AppState:
    return AppState.CANCELLED if info.reason == "Cancelled" else _STATES.get(info.phase, AppState.UNKNOWN)


def _role(fields: Mapping[str, Any]) -> Role:
    amounts = fields["resources"]
    size = Resource(amounts.get("cpu", 0) // 1000, amounts.get("gpu", 0), amounts.get("memory", 0) >> 20)
    command: Sequence[str] = fields["command"] or [""]
    return Role(
        name=fields["name"],
        image=fields["image"],
        entrypoint=command[0],
        args=list(command[1:]),
        num_replicas=fields["replicas"],
        resource=size,
    )


def _role_status(role: Role, info: JobInfo) -> RoleStatus:
    tasks = [each for each in info.details.get("tasks", ()) if each["role"] == role.name]
    nodes = [each["node"] for each in tasks[-role.num_replicas :]]
    hosts = nodes if len(nodes) == role.num_replicas else [""] * role.num_replicas
    states = [ReplicaStatus(id=n, state=_state(info), role=role.name, hostname=host) for n, host in enumerate(hosts)]
    return RoleStatus(role=role.name, replicas=states)


def _is_within(line: OutputLine, since: datetime | None, until: datetime | None) -> bool:
    at = line.at / 1000
    return not at or ((since is None or since.timestamp() <= at) and (until is None or at <= until.timestamp()))


def _is_selected(line: OutputLine, streams: Stream | None) -> bool:
    return streams in (None, Stream.COMBINED) or line.stream == _STREAMS.get(streams)

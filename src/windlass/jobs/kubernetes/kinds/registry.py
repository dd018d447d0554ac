"""The kinds of jobs: a row for each, found by API version and kind."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

from windlass.jobs.kubernetes.kinds import (
    jaxjob,
    mpijob_v1,
    mpijob_v2,
    notebook,
    paddlejob,
    pytorchjob,
    tfjob,
    trainingjob,
    trainjob,
    xgboostjob,
)
from windlass.jobs.kubernetes.kinds.member_policy import MemberPolicy, with_policies
from windlass.jobs.kubernetes.kinds.mpijob_parts import in_its_version
from windlass.jobs.kubernetes.kinds.parsed_gang import placement_faults
from windlass.jobs.kubernetes.kinds.pod_group import pod_group
from windlass.jobs.kubernetes.labels import AGENT
from windlass.jobs.kubernetes.manifest_reader import Fault, Manifest, ManifestError, ManifestField
from windlass.jobs.kubernetes.parsed_job import Member, ParsedJob, with_sizes
from windlass.jobs.kubernetes.pods import anti_affinity
from windlass.jobs.kubernetes.pods.agent_pods import requested_agent
from windlass.jobs.kubernetes.pods.anti_affinity import Exclusions
from windlass.jobs.kubernetes.pods.network_pods import with_network
from windlass.jobs.kubernetes.settings import Settings
from windlass.jobs.kubernetes.train_runtimes import TRAIN_JOB
from windlass.jobs.syntax.names import did_you_mean

_Policy: TypeAlias = Callable[[ParsedJob], MemberPolicy]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: its reader, its pods and its dependent objects."""

    api_version: str
    name: str
    plural: str
    read: Callable[[ManifestField, Settings], ParsedJob]
    """Reads a manifest. Raises ManifestError."""
    members: Callable[[ParsedJob, int], list[Member]]
    dependent_objects: Callable[[ParsedJob, Collection[str]], list[Manifest]]
    member_policy: _Policy


V1, V2 = "kubeflow.org/v1", "kubeflow.org/v2beta1"
OURS, TRAINER = trainingjob.API_VERSION, "trainer.kubeflow.org/v1alpha1"


class _Module(Protocol):
    """A module of this package for one kind."""

    def read(self, manifest: ManifestField, settings: Settings, /) -> ParsedJob:
        """See `Kind.read`."""

    def members(self, parsed: ParsedJob, generation: int, /) -> list[Member]:
        """See `members`."""

    def dependent_objects(self, parsed: ParsedJob, /) -> list[Manifest]:
        """See `dependent_objects`; the same for any running pods."""


def _gang(_parsed: ParsedJob) -> MemberPolicy:
    """The policy of kinds whose gang always restarts whole."""
    return MemberPolicy()


def _kind_of(version: str, name: str, plural: str, of: _Module, policy: _Policy = _gang) -> Kind:
    return Kind(
        version, name, plural, of.read, of.members, lambda parsed, _running: of.dependent_objects(parsed), policy
    )


KINDS = (
    _kind_of(V1, "PyTorchJob", "pytorchjobs", pytorchjob, pytorchjob.member_policy),
    _kind_of(V1, "TFJob", "tfjobs", tfjob, tfjob.member_policy),
    _kind_of(V1, "JAXJob", "jaxjobs", jaxjob, jaxjob.member_policy),
    _kind_of(V1, "XGBoostJob", "xgboostjobs", xgboostjob, xgboostjob.member_policy),
    _kind_of(V1, "PaddleJob", "paddlejobs", paddlejob, paddlejob.member_policy),
    Kind(
        V1, "MPIJob", "mpijobs", mpijob_v1.read, mpijob_v1.members, mpijob_v1.dependent_objects, mpijob_v1.member_policy
    ),
    Kind(
        V2, "MPIJob", "mpijobs", mpijob_v2.read, mpijob_v2.members, mpijob_v2.dependent_objects, mpijob_v2.member_policy
    ),
    _kind_of(notebook.V1BETA1, notebook.KIND, notebook.PLURAL, notebook),
    _kind_of(notebook.V1, notebook.KIND, notebook.PLURAL, notebook),
    _kind_of(TRAINER, TRAIN_JOB, "trainjobs", trainjob),
    _kind_of(OURS, trainingjob.KIND, trainingjob.PLURAL, trainingjob),
)
_DEFAULTS = Settings()
_AS_WRITTEN: Mapping[str, int] = MappingProxyType({})
_BY_NAME = {(kind.api_version, kind.name): kind for kind in KINDS}


def read(manifest: Any, settings: Settings = _DEFAULTS) -> ParsedJob | Fault:
    """The job of a manifest, or the first fault in it. Raises nothing for any content."""
    try:
        parsed = _parse(manifest, settings)
    except ManifestError as error:
        return error.fault
    if not _has_anti_affinity(parsed):
        return parsed
    return replace(parsed, warnings=(*parsed.warnings, *_ignored_anti_affinity(parsed)))


def faults_of(manifest: Any) -> tuple[Fault, ...]:
    """The faults of a manifest: all of independent fields, so that few show only once others are mended."""
    faults = _faults(manifest)
    versions = [each.api_version for each in KINDS if isinstance(manifest, dict) and each.name == manifest.get("kind")]
    if [each.path for each in faults] == [("apiVersion",)] and len(versions) == 1:
        faults += _faults({**manifest, "apiVersion": versions[0]})
    return faults


def _faults(manifest: Any) -> tuple[Fault, ...]:
    try:
        _parse(manifest, _DEFAULTS)
    except ManifestError as error:
        return tuple(dict.fromkeys((*error.faults, *_placement_faults(manifest))))
    return ()


def _placement_faults(manifest: Any) -> tuple[Fault, ...]:
    """The faults that `_parse` finds only in manifests whose other fields are right."""
    try:
        return placement_faults(ManifestField(manifest)["spec"])
    except ManifestError:  # a part is no mapping, and `_parse` says so
        return ()


def _parse(manifest: Any, settings: Settings) -> ParsedJob:
    """The job of a manifest. Raises ManifestError."""
    field = ManifestField(in_its_version(manifest) if isinstance(manifest, dict) else manifest)
    kind = _kind(field["apiVersion"], field["kind"])
    parsed = with_network(kind.read(field, settings))
    parsed = with_policies(parsed, kind.member_policy(parsed))
    return replace(parsed, warnings=(*parsed.warnings, *_without_agent(field)))


def _without_agent(manifest: ManifestField) -> list[str]:
    """A warning for an annotation that requests an agent for a kind without one. Raises ManifestError."""
    if manifest["kind"].text() == "PyTorchJob" or not requested_agent(manifest):
        return []
    instead = "write agent into the spec" if manifest["kind"].text() == trainingjob.KIND else "a PyTorchJob has it"
    return [f"the annotation {AGENT} has no effect on this kind; {instead}"]


def exclusions(parsed: ParsedJob) -> Exclusions:
    """The exclusions between pods of a job that may not share a node."""
    if not _has_anti_affinity(parsed):
        return Exclusions({}, frozenset())
    one_each = {each.role: min(each.count, 1) for each in parsed.replicas}
    pods = {member.role: member.pod for member in members(parsed, 1, one_each)}
    return anti_affinity.exclusions_of(parsed, {role: pod["metadata"]["labels"] for role, pod in pods.items()})


def members(parsed: ParsedJob, generation: int, sizes: Mapping[str, int] = _AS_WRITTEN) -> list[Member]:
    """Every pod of a generation, in the order of ranks. Parts that pods share must not be changed.

    `sizes`: replicas of roles whose number differs from the requested one; the pods' variables are for these sizes.
    """
    return _BY_NAME[parsed.api_version, parsed.kind].members(with_sizes(parsed, sizes), generation)


def dependent_objects(
    parsed: ParsedJob, running: Collection[str] = (), sizes: Mapping[str, int] = _AS_WRITTEN
) -> list[Manifest]:
    """Every dependent object of the pods, in the order of creation. `sizes`: see `members`.

    `running`: names of the pods that are ready, for MPI's script that discovers hosts; a launcher may wait for all of
    them.
    """
    made = _BY_NAME[parsed.api_version, parsed.kind].dependent_objects(with_sizes(parsed, sizes), running)
    return [*pod_group(parsed), *made]


def _has_anti_affinity(parsed: ParsedJob) -> bool:
    return any(parsed.anti_affinity.values())


def _ignored_anti_affinity(parsed: ParsedJob) -> list[str]:
    """Warnings for anti-affinity that has no effect, or not its whole effect."""
    supported = exclusions(parsed).supported_roles
    ignored = (
        each
        for each in parsed.replicas
        if each.count and parsed.anti_affinity[each.role] and each.role not in supported
    )
    return [f"{each.type}: podAntiAffinity is ignored by the scheduler" for each in ignored]


def _kind(api_version: ManifestField, kind: ManifestField) -> Kind:
    version, name = api_version.text(), kind.text()
    versions = [each.api_version for each in KINDS if each.name == name]
    if not name:
        kind.refuse(f"expects a kind of job: {', '.join(sorted({k.name for k in KINDS}))}")
    if not versions:
        kind.refuse(
            f"{name[:40]!r} is no kind of job that is known here{did_you_mean(name, sorted({k.name for k in KINDS}))}"
        )
    if version not in versions:
        api_version.refuse(f"expects {' or '.join(versions)} for a {name}")
    return _BY_NAME[version, name]

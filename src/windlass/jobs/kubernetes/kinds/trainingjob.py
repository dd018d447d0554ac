"""TrainingJob: our own kind. Its `spec` has the fields of a job file, its name is the object's.

The gang always restarts whole; the label of a pod names its generation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from windlass import wire
from windlass.core.model.job import DEFAULT_QUEUE, ArrayMember, Job, Launcher, Role
from windlass.core.model.resources import GPU_MILLI
from windlass.jobs.description.begin_time import is_absolute
from windlass.jobs.description.fields import JOB
from windlass.jobs.description.resolution import check, resolve
from windlass.jobs.kubernetes.bounded_integers import MAX_COUNT, parse_integer
from windlass.jobs.kubernetes.kinds.newer_version_fields import drop_unknown_fields
from windlass.jobs.kubernetes.kinds.parsed_gang import grace_of, warnings_of_templates
from windlass.jobs.kubernetes.kinds.plain_fields import plain_fields
from windlass.jobs.kubernetes.kinds.replica_specs import check_template
from windlass.jobs.kubernetes.kinds.run_policy import labelled_queue
from windlass.jobs.kubernetes.labels import (
    ARRAY,
    ARRAY_INDEX,
    ARRAY_LIMIT,
    JOB_NAME,
    JOB_NAME_ANNOTATION,
    KUEUE_QUEUE,
    KUEUE_QUEUE_NAME,
    KUEUE_QUEUE_RULE,
    OURS,
    REPLICA_INDEX,
    ROLE,
    USER,
)
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestField, read_all
from windlass.jobs.kubernetes.parsed_job import Member, ParsedJob, Replicas, RunPolicy
from windlass.jobs.kubernetes.pods.agent_pods import IMAGE, with_agent, with_membership
from windlass.jobs.kubernetes.pods.anti_affinity import anti_affinity_selectors
from windlass.jobs.kubernetes.pods.gang_secret import gang_secret_object, gang_secret_variable, needs_secret
from windlass.jobs.kubernetes.pods.pod_assembly import (
    env_vars,
    metadata,
    pod_object,
    pod_spec,
    start_variables,
    with_env,
)
from windlass.jobs.kubernetes.pods.pod_placement import affinity_of, tolerations_of
from windlass.jobs.kubernetes.pods.pod_requests import pod_requests
from windlass.jobs.kubernetes.pods.trainingjob_template import CONTAINER, gpus, template
from windlass.jobs.kubernetes.settings import Settings
from windlass.jobs.syntax.names import DNS_LABEL, MAX_DNS_LABEL, is_name
from windlass.launch.ranks import Rank, ranks_of, role_named
from windlass.launch.replica_names import replica_name
from windlass.launch.torchrun import StoreAddress, environment

API_VERSION, KIND, PLURAL = "windlass.dev/v1alpha1", "TrainingJob", "trainingjobs"
_PORT = 29_500
"""torchrun's default: a pod has all ports to itself."""


def read(manifest: ManifestField, settings: Settings) -> ParsedJob:
    """Reads a manifest. Raises ManifestError."""
    # 1. Read the fields as those of a job file.
    later: list[str] = []
    name, values = read_all(lambda: _name(manifest), lambda: _values(manifest, later))
    queue = values.get("queue") or labelled_queue(manifest)
    job = _job(manifest, {**values, "queue": queue or DEFAULT_QUEUE}, name)
    # 2. Make the pod templates, and the requests with the additions of `pod`.
    replicas = tuple(_replicas(manifest, job, role, settings) for role in job.roles)
    templates = {each.type: ManifestField(each.template, _path(manifest, each.type, "pod")) for each in replicas}
    job = replace(job, roles=tuple(_as_pods(job, role, templates) for role in job.roles), grace=_grace(job, templates))
    # 3. Check that the templates are valid.
    for role in job.roles:
        _refuse_without_image(manifest, role, templates[role.name])
    _refuse_if_no_pods(manifest, job, name)
    specs = {kind: entry["spec"] for kind, entry in templates.items()}
    return ParsedJob(
        manifest=manifest.mapping(),
        api_version=manifest["apiVersion"].text(),
        kind=manifest["kind"].text(),
        name=name,
        namespace=manifest["metadata"]["namespace"].text() or "default",
        uid=manifest["metadata"]["uid"].text(),
        job=job,
        replicas=replicas,
        run_policy=_policy(job, queue),
        settings=settings,
        priority_class=next((c for spec in specs.values() if (c := spec["priorityClassName"].text())), ""),
        anti_affinity={kind: anti_affinity_selectors(spec) for kind, spec in specs.items()},
        warnings=(*map(_of_a_later_version, later), *warnings_of_templates(specs)),
    )


def members(parsed: ParsedJob, generation: int) -> list[Member]:
    """Every pod of a generation: one for each replica, under any launcher."""
    job = parsed.job
    replicas = {each.type: each for each in parsed.replicas}
    specs = {each.type: pod_spec(parsed, each) for each in parsed.replicas}
    first = replica_name(parsed.name, job.roles[0].name, 0)
    meeting = StoreAddress(f"{first}.{parsed.name}", _PORT)
    made = []
    for rank in ranks_of(job):
        name = replica_name(parsed.name, rank.role, rank.replica)
        env = _env(parsed, rank, specs[rank.role], generation, meeting)
        template = with_env(specs[rank.role], env, CONTAINER)
        if _agent(job):
            template = with_membership(template, parsed, CONTAINER, name)
        spec = {**template, "hostname": name, "subdomain": parsed.name}
        labels = {JOB_NAME: parsed.name, ROLE: rank.role, REPLICA_INDEX: str(rank.replica)}
        pod = pod_object(parsed, replicas[rank.role], name, labels, spec, generation)
        made.append(Member(name, rank.role, rank.replica, pod))
    return made


def dependent_objects(parsed: ParsedJob) -> list[Manifest]:
    """The service and the secret of the gang.

    The service gives every pod a name `<pod>.<job>`, also before it is ready: pods rendezvous before that.
    """
    if parsed.run_policy.suspend:
        return []
    labels = {JOB_NAME: parsed.name}
    spec = {"clusterIP": "None", "selector": labels, "publishNotReadyAddresses": True}
    about = metadata(parsed, parsed.name, labels)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": about, "spec": spec}
    return [service, *([gang_secret_object(parsed)] if _has_secret(parsed) else [])]


def _name(manifest: ManifestField) -> str:
    entry = manifest["metadata"]["name"]
    name = entry.text()
    if not is_name(DNS_LABEL, name):
        entry.refuse("expects small letters, digits and dashes, a letter first: the pods' service is named by it")
    return name


def _values(manifest: ManifestField, later: list[str]) -> dict[str, Any]:
    """The fields of the spec; those that only files have are refused. `later`: paths of fields of a later version."""
    spec = manifest["spec"]
    if not spec.mapping():
        spec.refuse("expects what a job file says, for example command: python train.py")
    if manifest["metadata"]["uid"].text():  # it comes from the API server
        spec = ManifestField(drop_unknown_fields(spec.value, JOB, "spec", later), spec.path)
    values = plain_fields(spec, JOB, "a job", check)
    if "name" in values:
        spec["name"].refuse("the object's own name is the job's; leave this one out")
    if values.get("array"):
        spec["array"].refuse("an array is many jobs; hand it in with windlass submit, which makes an object of each")
    if values.get("cron"):
        spec["cron"].refuse("a TrainingJob is one run; leave this out, and repeat it with a CronJob")
    if values.get("begin") is not None and not is_absolute(spec["begin"].text()):
        spec["begin"].refuse("expects a date and a time such as 2026-11-28T08:00Z; windlass submit reads other words")
    if not values.get("workdir", "/").startswith("/"):
        spec["workdir"].refuse("expects a folder of the image, with a slash first")
    return values


def _of_a_later_version(path: str) -> str:
    return f"{path} is not known to this version of Windlass, and is left out"


def _job(manifest: ManifestField, values: Mapping[str, Any], name: str) -> Job:
    about = manifest["metadata"]
    labels = {word: text for word, text in about["labels"].text_map().items() if not word.startswith(OURS)}
    _check_kueue_queue(about["labels"], manifest["spec"]["labels"])
    user = about["annotations"][USER].text()
    name = about["annotations"][JOB_NAME_ANNOTATION].text() or name
    job = resolve({**values, "name": name}, base="", user=user, source="").job
    return replace(
        job,
        workdir=values.get("workdir", ""),
        labels={**labels, **job.labels},
        array=_array(about["labels"]),
    )


def _check_kueue_queue(*labels: ManifestField) -> None:
    """Refuses a name that no LocalQueue can have: the API server would refuse the Workload of the job."""
    for each in labels:
        name = each[KUEUE_QUEUE]
        if name.text() and not is_name(KUEUE_QUEUE_NAME, name.text()):
            name.refuse(KUEUE_QUEUE_RULE)


def _array(labels: ManifestField) -> ArrayMember | None:
    """The array and the index of the job, from its labels."""
    if labels[ARRAY].value is None:
        return None
    return ArrayMember(labels[ARRAY].text(), _number(labels[ARRAY_INDEX]), _number(labels[ARRAY_LIMIT]))


def _number(entry: ManifestField) -> int:
    number = parse_integer(entry.text("0"), 0, MAX_COUNT)
    if number is None:
        entry.refuse(f"expects a number from 0 to {MAX_COUNT}")
    return number


def _path(manifest: ManifestField, role: str, field: str) -> tuple[str, ...]:
    """The place of a field of a role, written or not."""
    roles = manifest["spec"]["roles"].value
    own = isinstance(roles, dict) and field in roles[role]
    return ("spec", "roles", role, field) if own else ("spec", field)


def _replicas(manifest: ManifestField, job: Job, role: Role, settings: Settings) -> Replicas:
    made = template(job, role)
    if way := _agent(job):
        where = ManifestField(list(role.command), _path(manifest, role.name, "command"))
        made = with_agent(made, CONTAINER, way, settings, where)
    return Replicas(role.name, role.name, role.replicas, "Never", made)


def _has_secret(parsed: ParsedJob) -> bool:
    """Tells whether the ranks have a Secret: several of them, in a cluster, to which no operator tells another one."""
    is_led = bool(_agent(parsed.job) and parsed.settings.agent_endpoint)
    return bool(parsed.uid) and needs_secret(parsed.job) and not is_led


def _agent(job: Job) -> str:
    """Source of the agent of its pods; "" if they have none."""
    return job.agent or (IMAGE if job.launcher is Launcher.AGENT else "")


def _as_pods(job: Job, role: Role, templates: Mapping[str, ManifestField]) -> Role:
    """The role with the tolerations of its pods, and with their requests where `pod` adds to its fields."""
    whole = templates[role.name]
    spec = whole["spec"]
    if not (role.pod or job.agent):
        return replace(role, tolerations=tolerations_of(spec))
    check_template(whole, None)
    return replace(
        role,
        resources=pod_requests(spec),
        node_selector=spec["nodeSelector"].text_map(),
        tolerations=tolerations_of(spec),
        affinity=affinity_of(spec),
    )


def _grace(job: Job, templates: Mapping[str, ManifestField]) -> int:
    graces = [
        grace_of(templates[role.name]["spec"]) for role in job.roles if "terminationGracePeriodSeconds" in role.pod
    ]
    return max(graces, default=job.grace)


def _refuse_without_image(manifest: ManifestField, role: Role, whole: ManifestField) -> None:
    """Refuses a container without an image; `check_template` does so where `pod` is written."""
    if not role.image and not role.pod:
        missing = ManifestField(None, _path(manifest, role.name, "image"))
        missing.refuse("is missing; write the container image that holds the program")
    if all(container["name"].text() != CONTAINER for container in whole["spec"]["containers"].items()):
        whole["spec"]["containers"].refuse(f"lacks the container {CONTAINER!r}, which runs the command")


def _refuse_if_no_pods(manifest: ManifestField, job: Job, name: str) -> None:
    several = [role for role in job.roles if role.procs > 1]
    if job.launcher is Launcher.PLAIN and several:
        manifest["spec"].refuse(
            f"the command starts one process in each pod, and {several[0].procs} are asked for (without procs one for "
            "each GPU); begin it with torchrun, or ask for one: procs: 1, on the command line --procs 1"
        )
    if any(GPU_MILLI in role.resources for role in job.roles):
        manifest["spec"].refuse(
            "Kubernetes has no resource for a part of a GPU; ask for whole GPUs, or for a MIG slice"
        )
    longest = max((replica_name(name, role.name, role.replicas - 1) for role in job.roles), key=len)
    if len(longest) > MAX_DNS_LABEL:
        manifest["metadata"]["name"].refuse(
            f"is {len(longest) - MAX_DNS_LABEL} characters too long: {longest} must be a DNS label of {MAX_DNS_LABEL}"
        )


def _policy(job: Job, queue: str) -> RunPolicy:
    """The run policy, which other kinds write out. The pods of a job that has ended stay, for their logs."""
    return RunPolicy(
        clean_pod_policy="None",
        ttl_ms=job.ttl,
        deadline_ms=job.deadline,
        backoff_limit=job.restart.user_limit,
        suspend=job.suspend,
        managed_by="",
        queue=queue,
        min_available=None,
        priority_class="",
        gang_restart=True,
    )


def _env(parsed: ParsedJob, rank: Rank, spec: Manifest, generation: int, meeting: StoreAddress) -> list[dict[str, Any]]:
    """Variables that a rank has on every backend. In a pod GPUs count from 0; its node is known once it is bound."""
    role = role_named(parsed.job, rank.role)
    main = next(each for each in spec["containers"] if each["name"] == CONTAINER)
    devices = gpus(role)
    inherited = dict.fromkeys((each.get("name", "") for each in main.get("env") or []), "")
    variables = environment(
        parsed.job,
        rank,
        job_id=parsed.name,
        generation=generation,
        node="",
        store=meeting,
        devices=[str(number) for number in range(devices or 0)],
        inherited=inherited,
    )
    if devices is None:
        del variables["CUDA_VISIBLE_DEVICES"]
    variables |= start_variables(parsed, generation)
    del variables[wire.NODE]
    node = {"name": wire.NODE, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    has_own = wire.GANG_SECRET in variables or wire.GANG_SECRET in inherited
    secret = [gang_secret_variable(parsed)] if _has_secret(parsed) and not has_own else []
    return [node, *env_vars(variables), *secret]

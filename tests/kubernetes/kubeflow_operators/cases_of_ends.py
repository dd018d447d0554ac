"""Cases of how a job ends, and of what remains of it then."""

from __future__ import annotations

from .kinds import (
    Do,
    Kind,
    Manifest,
    each_spec,
    finish,
    has_lead,
    is_replicated,
    of,
    replica_spec,
    run_policy,
    variation,
)

WORKER = ("Worker", 0)


# --- ends -----------------------------------------------------------------------------------------------------


@variation()
def _succeeds(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    return finish(kind)


@variation()
def _all_succeed(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    return (Do("end"),)


@variation()
def _workers_succeed_first(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    return Do("end", "Worker"), *finish(kind)


@variation(has_lead)
def _lead_fails(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    for spec in each_spec(kind, manifest):
        spec["restartPolicy"] = "Never"
    return (Do("end", kind.lead, 0, code=1),)


@variation()
def _worker_fails_never(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    for spec in each_spec(kind, manifest):
        spec["restartPolicy"] = "Never"
    return (Do("end", *WORKER, code=1),)


@variation()
def _worker_killed_never(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    for spec in each_spec(kind, manifest):
        spec["restartPolicy"] = "Never"
    return (Do("end", *WORKER, code=137),)


@variation()
def _worker_fails_on_failure(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    for spec in each_spec(kind, manifest):
        spec["restartPolicy"] = "OnFailure"
    return Do("end", *WORKER, code=1), *finish(kind)


@variation(is_replicated)
def _worker_fails_always(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    manifest["spec"][kind.specs]["Worker"]["restartPolicy"] = "Always"
    return Do("end", *WORKER, code=1), *finish(kind)


@variation(is_replicated)
def _exit_code_permanent(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    for spec in each_spec(kind, manifest):
        spec["restartPolicy"] = "ExitCode"
    return (Do("end", *WORKER, code=1),)


@variation(is_replicated)
def _exit_code_retryable(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    for spec in each_spec(kind, manifest):
        spec["restartPolicy"] = "ExitCode"
    return Do("end", *WORKER, code=137), *finish(kind)


@variation(is_replicated)
def _exit_code_backoff_limit(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    for spec in each_spec(kind, manifest):
        spec["restartPolicy"] = "ExitCode"
    run_policy(kind, manifest, backoffLimit=1)
    return Do("end", *WORKER, code=137), Do("end", *WORKER, code=137)


@variation()
def _backoff_limit_zero(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    run_policy(kind, manifest, backoffLimit=0)
    return (Do("end", kind.lead or "Worker", 0, code=1),)


@variation()
def _default_policy_fails(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    return (Do("end", kind.lead or "Worker", 0, code=1),)


@variation()
def _deadline(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    run_policy(kind, manifest, activeDeadlineSeconds=20)
    return (Do("wait", seconds=21),)


@variation()
def _pod_deleted(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    return Do("delete_pod", *WORKER), *finish(kind)


@variation(has_lead)
def _lead_deleted(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    return (Do("delete_pod", kind.lead, 0),)


@variation(of("TFJob"))
def _all_workers_policy(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    manifest["spec"]["successPolicy"] = "AllWorkers"
    return Do("end", "Chief", 0), Do("end", "Worker")


@variation(of("TFJob"))
def _worker_zero_decides(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    specs = manifest["spec"][kind.specs]
    del specs["Chief"]
    specs["Worker"]["replicas"] = 2
    return Do("end", "Worker", 1), Do("end", *WORKER)


@variation(of("TFJob"))
def _evaluator(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    manifest["spec"][kind.specs]["Evaluator"] = replica_spec(kind, 1)
    return finish(kind)


# --- what remains ---------------------------------------------------------------------------------------------


@variation()
def _clean_all(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    run_policy(kind, manifest, cleanPodPolicy="All")
    return finish(kind)


@variation()
def _clean_running(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    run_policy(kind, manifest, cleanPodPolicy="Running")
    return finish(kind)


@variation()
def _clean_none(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    run_policy(kind, manifest, cleanPodPolicy="None")
    return finish(kind)


@variation()
def _clean_all_failed(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    run_policy(kind, manifest, cleanPodPolicy="All", backoffLimit=0)
    for spec in each_spec(kind, manifest):
        spec["restartPolicy"] = "Never"
    return (Do("end", kind.lead or "Worker", 0, code=1),)


@variation()
def _clean_running_failed(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    run_policy(kind, manifest, cleanPodPolicy="Running", backoffLimit=0)
    for spec in each_spec(kind, manifest):
        spec["restartPolicy"] = "Never"
    return (Do("end", kind.lead or "Worker", 0, code=1),)


@variation()
def _ttl_zero(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    run_policy(kind, manifest, ttlSecondsAfterFinished=0)
    return (*finish(kind), Do("wait", seconds=1))


@variation()
def _ttl_two(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    run_policy(kind, manifest, ttlSecondsAfterFinished=2, cleanPodPolicy="None")
    return (*finish(kind), Do("wait", seconds=3))


@variation()
def _deleted(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    return (Do("delete"),)

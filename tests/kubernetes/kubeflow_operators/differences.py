"""The intended differences between Kubeflow's operators and ours, each with its reason: rows of the guide's table.

A difference that no row names fails the test, and so does a row that nothing needs any more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from .comparison import Difference


@dataclass(frozen=True, slots=True)
class Intended:
    """Differences with one reason. `case` and `path` are patterns for the whole of both."""

    what: str
    reason: str
    path: str
    case: str = ".*"
    verdict: str = "different"
    """`better` or `different`."""
    theirs: str = ".*"
    ours: str = ".*"
    """Patterns for both sides of the difference, as text."""
    is_late: bool = False
    """It may come after the last look at a case, or depends on what the operator sees of a pod before it is gone."""

    def covers(self, found: Difference) -> bool:
        """Tells whether this is the reason of a difference."""
        pairs = (
            (self.path, found.path),
            (self.case, found.case),
            (self.theirs, str(found.theirs)),
            (self.ours, str(found.ours)),
        )
        return all(_pattern(pattern).fullmatch(text) for pattern, text in pairs)

    def is_about(self, case: str, plain: str) -> bool:
        """Tells whether this is about a case, but not about a plain one of its kind."""
        return bool(_pattern(self.case).fullmatch(case)) and not _pattern(self.case).fullmatch(plain)


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.DOTALL)


REPLICATED = "(pytorchjob|tfjob|xgboostjob|paddlejob|jaxjob)-v1"
"""Kinds of training-operator without a launcher."""
INTENDED: tuple[Intended, ...] = (
    Intended(
        "spec.schedulerName of pods",
        "Windlass places the pods of its jobs itself, all of a job at once.",
        r"\d+/pods/[^/]+/spec/schedulerName",
        ours="windlass",
    ),
    Intended(
        "securityContext of init containers that the operator adds",
        "They pass the `restricted` pod security standard.",
        r"\d+/pods/[^/]+/spec/initContainers/[^/]+/securityContext",
        verdict="better",
    ),
    Intended(
        "events `<Kind>Created`, `<Kind>Queued`, `<Kind>Admitted`, `<Kind>Running`",
        "Each change of the job's conditions is an event; Kubeflow's training operator leaves these out.",
        r"\d+/events/Normal [A-Za-z]+Job(Created|Queued|Admitted|Running)",
        verdict="better",
        theirs="nothing",
    ),
    Intended(
        "event `<Kind>Succeeded`",
        "Each end of a job is an event; there some ends have none.",
        r"\d+/events/Normal [A-Za-z]+JobSucceeded",
        verdict="better",
        theirs="nothing",
    ),
    Intended(
        "event `mpijobsSucceeded` of an MPIJob v1",
        "Its reason is always `MPIJobSucceeded`; there some ends have both events.",
        r"\d+/events/Normal mpijobsSucceeded",
        case="mpijob-v1-(lead-alone|own-clean-policy)",
        verdict="better",
        theirs="True",
    ),
    Intended(
        "events about pods and services",
        "Each that the operator creates or deletes is an event, also when its job is deleted; there some have none.",
        r"\d+/events/Normal Successful(Create|Delete)(Pod|Service) job-.*",
        verdict="better",
        theirs="nothing",
    ),
    Intended(
        "event `<Kind>Restarting` of a job that a permanent exit code ends",
        "It does not restart.",
        r"\d+/events/Warning [A-Za-z]+JobRestarting",
        case="(?!tfjob|mpijob).*-exit-code-permanent",
        verdict="better",
        theirs="True",
    ),
    Intended(
        "event `<Kind>Restarting` of a pod that is deleted",
        "Each pod that is replaced is an event; there some are not.",
        r"\d+/events/Warning [A-Za-z]+JobRestarting",
        case="mpijob-v1-(pod|lead)-deleted",
        verdict="better",
        theirs="nothing",
        is_late=True,
    ),
    Intended(
        "event of a job that is deleted after its time to live",
        "Its reason is `SuccessfulDeleteJob` for all kinds; there it is `SuccessfulDeletePod` for some.",
        r"\d+/events/Normal SuccessfulDelete(Pod|Job) job",
        case="(pytorchjob|paddlejob|jaxjob|mpijob-v1).*-ttl-(zero|two)",
    ),
    Intended(
        "events about a worker that a smaller number of replicas removes",
        "It has not failed, and nothing restarts.",
        r"\d+/events/(Normal ExitedWithCode|Warning [A-Za-z]+JobRestarting)",
        case="(pytorchjob|paddlejob)-v1-scaled-down",
        verdict="better",
        theirs="True",
    ),
    Intended(
        "events about objects that exist already, or are gone already",
        "Windlass expects both, and goes on.",
        r"\d+/events/Warning Failed(Create|Delete)(Pod|Service)",
        verdict="better",
        theirs="True",
    ),
    Intended(
        "type of the event of a failure",
        "It is a warning, which `kubectl get events --field-selector type=Warning` finds.",
        r"\d+/events/(Normal|Warning) [A-Za-z]+JobFailed",
        case="(?!mpijob-v2).*",
        verdict="better",
    ),
    Intended(
        "event `ExitedWithCode` of the pod whose failure ends a job",
        "It names the pod and the exit code; there the job has ended before that is looked at.",
        r"\d+/events/Normal ExitedWithCode",
        verdict="better",
        theirs="nothing",
    ),
    Intended(
        "event of a failed MPIJob v2beta1",
        "Its reason is that of the launcher's Job, without a slash.",
        r"\d+/events/Warning BackoffLimitExceeded/?",
        case="mpijob-v2beta1-.*",
        verdict="better",
    ),
    Intended(
        "events of an MPIJob v1 about its ServiceAccount, Role and RoleBinding, and a launcher that exists already",
        "They are repeated with each look at a job, have blanks in their reasons, and report no failure of the job.",
        r"\d+/events/(Normal (LauncherRole|ServiceAccount|RoleBinding) is exist|Warning MPIJobFailed)",
        case="mpijob-v1-.*",
        theirs="True",
        ours="nothing",
    ),
    Intended(
        "further events of an MPIJob v1: its suspension, and restarts",
        "There the repeated events use up what the client library lets an operator write about one job.",
        r"\d+/events/(Normal MPIJob(Suspended|Resumed)|Warning MPIJobRestarting)",
        case="mpijob-v1-.*",
        verdict="better",
        theirs="nothing",
        is_late=True,
    ),
    Intended(
        "condition `Admitted`",
        "An additional condition: the nodes, or the reason why the job waits.",
        r"\d+/job/conditions/Admitted",
        verdict="better",
        theirs="nothing",
    ),
    Intended(
        "condition `Diagnosed`",
        "An additional condition of a job that has failed, or waits for a person: the cause.",
        r"\d+/job/conditions/Diagnosed",
        verdict="better",
        theirs="nothing",
        is_late=True,
    ),
    Intended(
        "event `<Kind>Diagnosed`",
        "The cause of a failure is an event.",
        r"\d+/events/(Normal|Warning) [A-Za-z]+JobDiagnosed",
        verdict="better",
        theirs="nothing",
        is_late=True,
    ),
    Intended(
        "condition `ImagesPulled`",
        "An additional condition: the image that cannot be pulled, and the pods that wait for it.",
        r"\d+/job/conditions/ImagesPulled",
        case=".*-launcher-waits-in-vain",
        verdict="better",
        theirs="nothing",
    ),
    Intended(
        "`completionTime` of a failed job",
        "It says when the job failed; training-operator leaves it out.",
        r"\d+/job/completionTime",
        verdict="better",
        theirs="False",
        ours="True",
    ),
    Intended(
        "messages of conditions",
        "They name the pod, its node and its exit code, or the reason of a suspension.",
        r"\d+/job/conditions/[^/]+/message",
        verdict="better",
    ),
    Intended(
        "reason of the condition `Failed` of an MPIJob",
        "`MPIJobFailed` and `BackoffLimitExceeded`, where those operators write `MPIJobMPIJobFailed` and a slash.",
        r"\d+/job/conditions/Failed/reason",
        theirs="MPIJobMPIJobFailed|BackoffLimitExceeded/",
        ours="MPIJobFailed|BackoffLimitExceeded",
    ),
    Intended(
        "name of the Secret with the SSH keys of an MPIJob v2beta1",
        "It ends with a hash of the job's uid: nobody can put another Secret in its place.",
        r"\d+/(secrets/job-ssh.*|.*/ssh-auth/secret/secretName)",
        verdict="better",
    ),
    Intended(
        "spec.schedulerName of the launcher's Job",
        "Windlass places the launcher as well.",
        r"\d+/jobs/[^/]+/spec/template/spec/schedulerName",
        ours="windlass",
    ),
    Intended(
        "securityContext of the init container `kubectl-delivery`",
        "It passes the `restricted` pod security standard as far as its image allows.",
        r"\d+/pods/[^/]+/spec/initContainers/kubectl-delivery/securityContext",
        verdict="better",
    ),
    Intended(
        "XGBoostJob that is scaled down",
        "It goes on with the workers that are left. training-operator counts the worker that it has removed as failed, "
        "and ends the job.",
        r"[12]/job/(conditions/(Running/status|Failed|Succeeded)|replicaStatuses/.*|completionTime)",
        case="xgboostjob-v1-scaled-down",
        verdict="better",
    ),
    Intended(
        "discover_hosts.sh of an MPIJob v2beta1 that is scaled down",
        "It no longer names the worker that was removed; mpi-operator lists it until the next change of the job.",
        r"1/configmaps/[^/]+/data/discover_hosts.sh",
        case="mpijob-v2beta1-scaled-down",
        verdict="better",
    ),
    Intended(
        "Role of the launcher of an MPIJob v1 without workers",
        "Without names of workers, a right to exec would be one for every pod of the namespace.",
        r"\d+/roles/job-launcher/rules/1",
        case="mpijob-v1-.*",
        verdict="better",
        theirs=".*'pods/exec'.*",
        ours="nothing",
    ),
    Intended(
        "discover_hosts.sh of an MPIJob v1 whose launcher has GPUs",
        "Without the empty line after the launcher.",
        r"\d+/configmaps/job-config/data/discover_hosts.sh",
        case="mpijob-v1-gpus",
        theirs=".*job-launcher:1\n\n.*",
        ours=".*job-launcher:1\necho.*",
    ),
    Intended(
        "discover_hosts.sh of an MPIJob that has ended",
        "It is not written any more: it may still list pods that end together with the job.",
        r"1/configmaps/job-config/(data.*|labels|owners)",
        case="mpijob-v1-(all-succeed|worker-(fails|killed)-never)|mpijob-v2beta1-all-succeed",
    ),
    Intended(
        "MPIJob with two launchers, or v1 with an unknown replica type",
        "The API server refuses it and says why; those operators accept it, and nothing happens.",
        r"0/(job|refused|events)",
        case="mpijob-.*-two-leads|mpijob-v1-wrong-role",
        verdict="better",
    ),
    Intended(
        "MPIJob v2beta1 with an unknown replica type",
        "The API server refuses it and names the type; mpi-operator runs the job without those pods.",
        r"0/(job|refused|events|configmaps|jobs|pods|secrets|services)",
        case="mpijob-v2beta1-wrong-role",
        verdict="better",
    ),
    Intended(
        "MPIJob v2beta1 whose workers have no `replicas`",
        "It has one worker, as the API says; mpi-operator takes that for none, and refuses the job in an event.",
        r"\d+/(job/(conditions|replicaStatuses/.*|startTime|completionTime)|events/Warning ValidationError"
        r"|pods|services|configmaps|secrets|jobs)",
        case="mpijob-v2beta1-no-replicas",
        verdict="better",
    ),
    Intended(
        "MPIJob v1 past its `activeDeadlineSeconds`",
        "It ends then; training-operator ends it with the next change of its pods, which may never come.",
        r"[01]/(job/conditions/(Running/status|Failed)|pods)",
        case="mpijob-v1-deadline",
        verdict="better",
    ),
    Intended(
        "restartPolicy `ExitCode` of an MPIJob v1",
        "It means the same as in other kinds; training-operator restarts no pod, and the job stays `Restarting`.",
        r"\d+/(configmaps/job-config/(data|labels|owners)|job/conditions/(Restarting|Running|Failed)"
        r"|job/replicaStatuses/Worker/.*|pods.*)",
        case="mpijob-v1-exit-code-(permanent|retryable|backoff-limit)",
        verdict="better",
    ),
    Intended(
        "`activeDeadlineSeconds`",
        "A job ends at its deadline; training-operator looks at it only when the job or one of its pods changes.",
        r"1/(job/conditions/(Running/status|Failed)|pods|services)",
        case=f"{REPLICATED}-deadline",
        verdict="better",
    ),
    Intended(
        "`backoffLimit` under the restart policy `ExitCode`",
        "Pods that are deleted and created again count; training-operator counts restarts of containers only.",
        r"2/(job/conditions/(Running/status|Failed)|job/replicaStatuses/Worker/(active|failed)|pods|services)",
        case=f"{REPLICATED}-exit-code-backoff-limit",
        verdict="better",
    ),
    Intended(
        "replicaStatuses of a job that its `backoffLimit` has ended",
        "They count the pod that has failed; training-operator leaves the numbers from before its failure.",
        r"1/job/replicaStatuses/[^/]+(/(active|failed))?",
        case="(tfjob|xgboostjob|jaxjob|mpijob)-v1-backoff-limit-zero"
        rf"|({REPLICATED}|mpijob-v1)-(clean-all-failed|clean-running-failed)",
        verdict="better",
    ),
    Intended(
        "a Master without `replicas`",
        "One pod, as of every other type without a number; training-operator's webhook refuses the manifest.",
        r"0/(refused|job|pods|services|events)|1",
        case="(pytorchjob|xgboostjob)-v1-no-replicas",
        verdict="better",
    ),
    Intended(
        "status of a refused request",
        "Rules of the definitions refuse a manifest (422); training-operator has webhooks for that (403).",
        r"0/refused",
        case=f"{REPLICATED}-wrong-container|(?!tfjob){REPLICATED}-wrong-role|(pytorchjob|xgboostjob)-v1-two-leads"
        "|pytorchjob-v1-no-workers",
        theirs="403 Forbidden",
        ours="422 Invalid",
    ),
    Intended(
        "a PaddleJob whose Worker has `replicas: 0`",
        "It is refused, as a PyTorchJob is; training-operator creates a worker and deletes it, again and again.",
        r"0/(refused|job|pods|services|events)",
        case="paddlejob-v1-no-workers",
        verdict="better",
    ),
    Intended(
        "event `<Kind>ContainersRestarted`",
        "It counts the containers that kubelets have restarted in place; training-operator has no event about them.",
        r"\d+/events/Warning \w+ContainersRestarted",
        verdict="better",
    ),
    Intended(
        "a replica type that TFJob does not have",
        "It is refused, as in the other kinds; training-operator runs pods of any type that a TFJob names.",
        r"0/(refused|job|pods|services|events)",
        case="tfjob-v1-wrong-role",
    ),
    Intended(
        "`managedBy` of a JAXJob",
        "The job is left to the controller that it names; training-operator runs it all the same.",
        r"0/(job/(conditions|startTime|replicaStatuses/Worker)|pods|services|events/.*)",
        case="jaxjob-v1-managed-by-another",
        verdict="better",
    ),
    Intended(
        "a deleted pod under `restartPolicy: Never`",
        "It has failed, and so has the job; in training-operator only if it sees the pod before that is gone.",
        r"1/(job/conditions/(Running/status|Failed)|job/replicaStatuses/Master/(active|failed)|pods/job-master-0)",
        case="xgboostjob-v1-lead-deleted",
    ),
)

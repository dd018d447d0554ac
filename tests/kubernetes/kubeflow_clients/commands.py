"""Commands of users: verbs of kubectl and methods of the clients, each with the test that shows it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TRAINING, TRAINER, KUBECTL = "TrainingClient", "TrainerClient", "kubectl"
EQUAL, BETTER = "equal", "better"
MODULES = {TRAINING: "test_training_client", TRAINER: "test_trainer_client", KUBECTL: "test_kubectl"}
"""The module of tests of each tool."""


@dataclass(frozen=True, slots=True)
class Command:
    """A method of a client, or a verb of kubectl; `test`: the name of a function in the tool's module."""

    tool: str
    name: str
    test: str
    verdict: str = EQUAL
    reason: str = ""

    @property
    def title(self) -> str:
        return f"kubectl {self.name}" if self.tool == KUBECTL else f"{self.tool}.{self.name}"


_LISTED = "test_a_created_job_is_listed_with_the_conditions_of_its_own_operator"
_WHOLE = "test_an_update_suspends_and_resumes_a_job_which_then_succeeds_and_is_deleted"
_FAILED = "test_a_failed_job_is_an_error_for_a_client_that_waits_for_success"
_PODS = "test_pods_are_found_by_the_labels_of_the_own_operator"
_CONTAINER = "test_a_job_of_a_container_runs_has_logs_and_events_and_is_deleted"
_FUNCTION = "test_a_job_of_a_function_runs_it_on_the_nodes_of_its_runtime"
_RUNTIMES = "test_runtimes_of_the_cluster_and_of_the_namespace_are_listed"
COMMANDS: tuple[Command, ...] = (
    Command(TRAINING, "create_job", "test_a_job_of_an_image_has_the_size_that_the_call_names"),
    Command(
        TRAINING,
        "train",
        "test_train_waits_for_its_claim_and_then_runs",
        reason="needs `kubeflow-training[huggingface]`; the tests stand in for transformers and peft",
    ),
    Command(TRAINING, "get_job", _LISTED),
    Command(TRAINING, "list_jobs", _LISTED),
    Command(TRAINING, "get_job_conditions", _LISTED),
    Command(TRAINING, "is_job_created", _LISTED),
    Command(TRAINING, "is_job_running", _LISTED),
    Command(TRAINING, "is_job_restarting", "test_a_job_whose_pod_is_replaced_is_restarting_until_it_runs"),
    Command(TRAINING, "is_job_succeeded", _WHOLE),
    Command(TRAINING, "is_job_failed", _FAILED),
    Command(TRAINING, "wait_for_job_conditions", _FAILED),
    Command(TRAINING, "get_job_pods", _PODS),
    Command(TRAINING, "get_job_pod_names", _PODS),
    Command(TRAINING, "get_job_logs", "test_logs_are_read_and_followed"),
    Command(TRAINING, "update_job", _WHOLE),
    Command(TRAINING, "delete_job", _WHOLE),
    Command(TRAINER, "list_runtimes", _RUNTIMES),
    Command(TRAINER, "get_runtime", _RUNTIMES),
    Command(TRAINER, "get_runtime_packages", "test_the_packages_of_a_runtime_are_printed_from_its_log"),
    Command(TRAINER, "train", "test_options_of_a_call_reach_the_pods"),
    Command(TRAINER, "list_jobs", _FUNCTION),
    Command(TRAINER, "get_job", _FUNCTION),
    Command(TRAINER, "get_job_logs", _CONTAINER),
    Command(TRAINER, "get_job_events", _CONTAINER),
    Command(
        TRAINER, "wait_for_job_status", "test_a_job_at_its_deadline_is_an_error_for_a_client_that_waits_for_its_end"
    ),
    Command(TRAINER, "delete_job", _CONTAINER),
    Command(
        KUBECTL,
        "get",
        "test_get_shows_the_state_of_a_job",
        BETTER,
        "STATE is the last condition, with more values, such as Queued; `-o wide` has its reason",
    ),
    Command(KUBECTL, "describe", "test_describe_shows_the_conditions_and_the_events"),
    Command(KUBECTL, "logs", "test_logs_are_read_by_pod_and_by_label"),
    Command(KUBECTL, "wait", "test_wait_ends_with_the_condition"),
    Command(KUBECTL, "patch", "test_patch_suspends_and_resumes_a_job"),
    Command(KUBECTL, "scale", "test_scale_adds_and_removes_workers"),
    Command(KUBECTL, "delete", "test_delete_removes_the_pods"),
    Command(KUBECTL, "delete --cascade=orphan", "test_orphaned_pods_outlive_the_job"),
    Command(KUBECTL, "cordon", "test_cordon_keeps_new_pods_off_a_node"),
    Command(KUBECTL, "explain", "test_explain_describes_a_field"),
)


def calls(tool: str) -> dict[str, set[str]]:
    """Returns the names of the methods that each test of a tool calls."""
    used = {name: set(_called(each)) for name, each in _functions(tool).items()}
    return {
        name: found | {method for function in found & used.keys() for method in used[function]}
        for name, found in used.items()
        if name.startswith("test_")
    }


def words_after(tool: str) -> dict[str, set[str]]:
    """Returns the words that each test of a tool types after its name."""
    tests = {name: each for name, each in _functions(tool).items() if name.startswith("test_")}
    return {name: set(_typed(each, tool)) for name, each in tests.items()}


def _functions(tool: str) -> dict[str, ast.FunctionDef]:
    tree = ast.parse((Path(__file__).parent / f"{MODULES[tool]}.py").read_text())
    return {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}


def _typed(function: ast.FunctionDef, tool: str) -> Iterator[str]:
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name == tool:
                yield from (each.value for each in node.args if isinstance(each, ast.Constant))


def _called(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Attribute(value=ast.Name(id="client"), attr=name) | ast.Name(id=name):
                    yield name

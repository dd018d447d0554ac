"""Compares the operator's calls in a whole test session with its roles, at the end of the session.

The API servers of tests record every call of the operator's account (`planes/audit_log.py`). A call that no role
allows fails the session. A permission that no test has used fails it too, if all tests on Kubernetes have run.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from planes.audit_log import FOLDER_VARIABLE, Call, kept_calls
from planes.fixtures import OPERATORS

from windlass.deploy.permissions import (
    CORDON,
    CULL,
    FOREIGN_POD_GROUPS,
    JOBS,
    MPIJOB_V1,
    QUERIES,
    SCHEDULING,
    Permission,
    own_permissions,
)
from windlass.jobs.kubernetes.operator_names import OPERATOR
from windlass.jobs.kubernetes.schedules import cron_training_job

Right = tuple[str, str, str]
"""Verb, API group, resource."""
CLIENT = "windlass"
"""Name of the operator's client. Tests that ask with its account for what is refused have another."""
CLUSTER = (*SCHEDULING, *JOBS, *QUERIES, *MPIJOB_V1, *CORDON, *CULL, *FOREIGN_POD_GROUPS.values())
BASIC_USER: tuple[Right, ...] = (("create", "authorization.k8s.io", "selfsubjectaccessreviews"),)
"""Calls that Kubernetes' own role `system:basic-user` allows everyone."""
NEVER_CALLED = ("/finalizers", "/exec")
"""Subresources whose permissions are checked while another object is created: to block the deletion of its owner, and
to grant a role. The API servers of tests refuse both without them."""
CHECKED_BY_A_POLICY = (cron_training_job.RUN,)
"""Verbs that no request has: an admission policy asks for them while another object is created. The test of a run's
user in `operator/test_tenants.py` fails without them."""
SAME_CODE = {"scheduling.sigs.k8s.io": "scheduling.x-k8s.io"}
"""An API group whose kinds no test installs, and the newer one with the same kinds."""
ON_KUBERNETES = ("tests/kubernetes/", "tests/contract/")
CAMPAIGNS = "tests/kubernetes/campaigns/"
"""Tests of which some only run in `make soak`."""


def refused_calls(calls: Iterable[Call]) -> list[str]:
    """Calls of the operator that were refused and that none of its roles allows.

    A refusal of what a role allows says nothing: an API server that has just started refuses everything until it has
    read the roles.
    """
    own = own_permissions(OPERATOR)
    everywhere = {*BASIC_USER, *(right for each in CLUSTER for right in _rights(each))}
    refused = (each for each in calls if _is_operators(each) and not each.granted)
    missing = (each for each in refused if not (_right(each) in everywhere or any(_allows(one, each) for one in own)))
    return sorted({_text(_right(each)) for each in missing})


def unused_rights(calls: Iterable[Call]) -> list[str]:
    """Permissions of the operator that none of these calls needed.

    Kinds in one permission are handled by the same code: each verb is used on one of them, and each of them is used.
    A call that the role in the operator's own namespace allows does not count for those in the whole cluster.
    """
    own = own_permissions(OPERATOR)
    inside, outside = set(), set()
    for call in (each for each in calls if _is_operators(each) and each.granted):
        (inside if any(_allows(each, call) for each in own) else outside).add(_right(call))
    found = [text for each in own for text in _unused(each, inside)]
    return [*found, *(text for each in CLUSTER for text in _unused(each, outside))]


def _allows(permission: Permission, call: Call) -> bool:
    """Whether a permission in the namespace of the caller's account allows a call."""
    here = call.namespace == call.user.split(":")[2] and (not permission.names or call.name in permission.names)
    return here and _right(call) in _rights(permission)


def _rights(permission: Permission) -> list[Right]:
    return [(verb, permission.group, each) for each in permission.resources for verb in permission.verbs]


def _unused(permission: Permission, used: set[Right]) -> list[str]:
    if permission.resources[0].endswith(NEVER_CALLED) or permission.verbs == CHECKED_BY_A_POLICY:
        return []
    group = SAME_CODE.get(permission.group, permission.group)
    rights = {(verb, name) for verb, of, name in used if of == group and name in permission.resources}
    verbs = [verb for verb in permission.verbs if verb not in {each for each, _ in rights}]
    unseen = [name for name in permission.resources if name not in {each for _, each in rights}]
    where = f" of {permission.group}" if permission.group else ""
    lines = [f"{verb} {', '.join(permission.resources)}{where}" for verb in verbs]
    return lines or [f"{', '.join(permission.verbs)} {name}{where}" for name in unseen]


def _is_operators(call: Call) -> bool:
    return call.agent == CLIENT and call.user in OPERATORS


def _right(call: Call) -> Right:
    return call.verb, call.group, call.resource


def _text(right: Right) -> str:
    verb, group, resource = right
    return f"{verb} {resource}{f' of {group}' if group else ''}"


class SessionReport:
    """The process that starts the workers: it reads their calls and compares them at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.not_run: list[str] = []
        """Tests on Kubernetes that were skipped or have failed."""
        self.lines: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        is_of_soak = report.skipped and report.nodeid.startswith(CAMPAIGNS)
        if not report.passed and report.nodeid.startswith(ON_KUBERNETES) and not is_of_soak:
            self.not_run.append(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        calls = kept_calls(self.folder)
        self.lines = [f"not granted: {each}" for each in refused_calls(calls)]
        if calls and _runs_everything(session.config) and not self.not_run:
            self.lines += [f"never used: {each}" for each in unused_rights(calls)]
        if self.lines and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Prints the differences below everything else: they are then the reason of the exit code."""
        if self.lines:
            terminalreporter = config.pluginmanager.getplugin("terminalreporter")
            terminalreporter.section("permissions of the operator (src/windlass/deploy/permissions.py)", red=True)
            for line in self.lines:
                terminalreporter.write_line(line)


def _runs_everything(config: pytest.Config) -> bool:
    """Whether no test was left out by the command line."""
    chosen = ("keyword", "markexpr", "deselect", "lf", "ignore", "ignore_glob", "stepwise")
    is_whole = config.args_source is not pytest.Config.ArgsSource.ARGS
    return is_whole and not any(config.getoption(name, None) for name in chosen)


def record_session(config: pytest.Config) -> None:
    """Lets the API servers of all processes of a session hand in their calls, and compares them at its end."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return  # the process that started this one compares
    if FOLDER_VARIABLE not in os.environ:  # a folder that is given is kept
        folder = tempfile.TemporaryDirectory(prefix="windlass-calls-")
        os.environ[FOLDER_VARIABLE] = folder.name
        config.add_cleanup(folder.cleanup)
    config.pluginmanager.register(SessionReport(Path(os.environ[FOLDER_VARIABLE])))

"""Job names on a cluster, objects of jobs, shipped files, events, and the config file."""

import itertools
import os
from dataclasses import replace

import pytest

from windlass.cli.config_file import Config, configured
from windlass.cli.errors import UsageError
from windlass.cli.kubernetes import code_folder
from windlass.cli.kubernetes.code_folder import pack_folder
from windlass.cli.kubernetes.job_events import new_diagnoses
from windlass.cli.kubernetes.job_names import JobName, parse_job_name
from windlass.cli.kubernetes.operator_client import query_path
from windlass.cli.kubernetes.pod_exec import read_exit_code
from windlass.cli.kubernetes.training_jobs import build_training_jobs
from windlass.cli.state_events import ReportedState, new_events
from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.job import Dependency, Job, Role
from windlass.core.model.status import JobState, Phase, Status
from windlass.jobs.description.submission import Submission
from windlass.jobs.errors import InputError
from windlass.jobs.kubernetes.status.diagnosis_condition import diagnosis_condition


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("digits", JobName("digits", "team")),
        ("pytorchjob/mnist", JobName("mnist", "team", "pytorchjob")),
        ("other/digits", JobName("digits", "other")),
        ("other/pytorchjob/mnist", JobName("mnist", "other", "pytorchjob")),
    ],
)
def test_job_names_may_omit_namespace_and_kind(text, first):
    assert parse_job_name(text, "team")[0] == first


def test_four_parts_are_not_a_job_name():
    assert parse_job_name("a/b/c/d", "team") == ()


def submission(name, **more):
    return Submission(Job(name, (Role(command=("true",), image="example.com/x:1"),), workdir="", **more), source="f")


def drawn(*submissions, known=None):
    numbers = itertools.count(1)
    return build_training_jobs(submissions, "team", lambda: f"x{next(numbers)}", known or {}.__getitem__)


def test_a_dependency_within_a_file_names_the_created_object():
    made = drawn(submission("prepare"), submission("train", after=(Dependency("prepare"),)))

    assert made.names == ["prepare-x1", "train-x2"]
    assert made.manifests[1]["spec"]["after"] == ["prepare-x1"]


def test_a_dependency_on_an_array_names_each_member():
    made = drawn(submission("train", after=(Dependency("sweep"),)), known=lambda _name: ["sweep-a-0", "sweep-a-1"])

    assert made.manifests[0]["spec"]["after"] == ["sweep-a-0", "sweep-a-1"]


def test_an_impossible_pod_is_an_error_of_the_job():
    with pytest.raises(InputError, match="f: the command starts one process in each pod"):
        drawn(Submission(Job("train", (Role(procs=2, command=("true",), image="x"),), workdir=""), source="f"))


# --- code -----------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    for name in ("train.py", "src/net.py", "src/.gitignore", "data/big.npy", ".git/HEAD", "__pycache__/a.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("*.log\n")
    (tmp_path / "src/run.log").write_text("")
    (tmp_path / "env").mkdir()
    (tmp_path / "env/pyvenv.cfg").write_text("")
    return tmp_path


def test_files_ignored_by_git_are_not_packed(folder):
    (folder / ".gitignore").write_text("data/\n")

    assert set(pack_folder(folder).sizes) == {".gitignore", "train.py", "src/net.py", "src/.gitignore"}


def test_the_ignore_files_of_the_repository_apply_to_its_folders(folder):
    (folder / ".gitignore").write_text("checkpoints/\n*.tmp\n")
    for name in ("src/checkpoints/last.pt", "src/a.tmp"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("")

    assert set(pack_folder(folder / "src").sizes) == {"net.py", ".gitignore"}
    assert set(pack_folder(folder / "src/checkpoints").sizes) == {"last.pt"}


def test_a_windlassignore_file_replaces_gitignore(folder):
    (folder / ".gitignore").write_text("train.py\n")
    (folder / ".windlassignore").write_text("*.npy\n.gitignore\n")

    assert set(pack_folder(folder).sizes) == {"train.py", "src/net.py", "src/run.log"}


def test_executable_files_stay_executable(folder):
    (folder / "train.py").chmod(0o755)

    assert pack_folder(folder).archive != pack_folder(folder / "src").archive


def test_a_folder_that_is_too_large_names_its_largest_files_and_the_fixes(folder):
    (folder / "data/big.npy").write_bytes(os.urandom(2 << 20))

    with pytest.raises(UsageError, match=r"is 2 MiB packed, 1 MiB above the limit of 1 MiB; largest: data/big"):
        pack_folder(folder)


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="there is no such folder"):
        pack_folder(tmp_path / "nowhere")


def test_a_link_that_leaves_the_folder_is_refused(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "shadow"
    outside.write_text("root:secret")
    (folder / "src/data.txt").symlink_to(outside)

    with pytest.raises(UsageError, match=f"src/data.txt is a link to {outside}, outside of the folder"):
        pack_folder(folder)

    (folder / ".gitignore").write_text("data.txt\n")
    assert "src/data.txt" not in pack_folder(folder).sizes


def test_a_link_through_a_linked_folder_is_refused(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "shadow").write_text("root:secret")
    (folder / "there").symlink_to(outside)
    (folder / "data.txt").symlink_to("there/shadow")

    with pytest.raises(UsageError, match=r"data.txt is a link to .*/shadow, outside of the folder"):
        pack_folder(folder)


def test_a_link_to_a_folder_is_refused_as_its_files_would_be_missed(folder):
    (folder / "lib").symlink_to("src")
    with pytest.raises(UsageError, match="lib is a link to a folder, which is not shipped"):
        pack_folder(folder)
    (folder / ".gitignore").write_text("lib\n")
    assert "src/net.py" in pack_folder(folder).sizes


def test_links_within_the_folder_are_packed_and_dead_links_are_not(folder):
    (folder / "main.py").symlink_to("src/net.py")
    (folder / ".#main.py").symlink_to("somebody@machine.12:34")

    sizes = pack_folder(folder).sizes
    assert sizes["main.py"] == sizes["src/net.py"]
    assert ".#main.py" not in sizes

    (folder / "around").symlink_to("around")
    with pytest.raises(UsageError, match="around: Too many levels of symbolic links"):
        pack_folder(folder)


@pytest.mark.parametrize("part", ["train.py", "src"])
def test_a_file_that_becomes_a_link_after_the_check_is_not_read(folder, tmp_path_factory, monkeypatch, part):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "net.py").write_text("root:secret")
    resolve, seen = code_folder.os.path.realpath, []

    def replace_after_check(path, **how):
        found = resolve(path, **how)
        if not seen and str(path).startswith(str(folder / part)):
            seen.append(path)
            (folder / part).rename(folder / "old")
            (folder / part).symlink_to(outside if part == "src" else outside / "net.py")
        return found

    monkeypatch.setattr(code_folder.os.path, "realpath", replace_after_check)
    with pytest.raises(UsageError, match=r"(train.py|src/.*): (Too many levels of symbolic links|Not a directory)"):
        pack_folder(folder)


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        "src/.env.production",
        "deploy/id_rsa",
        "tls/server.KEY",
        "ca.pem",
        ".aws/credentials",
        ".netrc",
        ".git-credentials",
        "kubeconfig",
        ".kube/config",
        ".ssh/known_hosts",
        "secrets.yaml",
        "prod.env",
        "hf_token",
        "api_key.txt",
    ],
)
def test_files_that_look_like_secrets_are_refused_unless_they_are_named(folder, name):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("PASSWORD=x")

    with pytest.raises(UsageError, match=f"this may be a secret: {name}\n.*!{name} to ship it"):
        pack_folder(folder)

    (folder / ".gitignore").write_text(f"{name}\n")
    assert name not in pack_folder(folder).sizes
    (folder / ".gitignore").write_text(f"!{name}\n")
    assert name in pack_folder(folder).sizes


@pytest.mark.parametrize("pattern", ["!*", "!/src", "!src/**", "!*.*", "!src/"])
def test_a_pattern_that_names_no_file_ships_no_secret(folder, pattern):
    (folder / "src/.env").write_text("PASSWORD=x")
    (folder / ".gitignore").write_text(f"/*\n!/src\n{pattern}\n")

    with pytest.raises(UsageError, match=r"this may be a secret: .*src/.env"):
        pack_folder(folder)
    (folder / ".gitignore").write_text("/*\n!/src\n!.env\n")
    assert "src/.env" in pack_folder(folder).sizes


def test_a_harmless_link_to_a_secret_is_refused(folder):
    (folder / ".gitignore").write_text(".env\n")
    (folder / ".env").write_text("PASSWORD=x")
    (folder / "settings.txt").symlink_to(".env")

    with pytest.raises(UsageError, match=r"this may be a secret: settings.txt"):
        pack_folder(folder)

    (folder / "settings.txt").unlink()
    (folder / "remote.txt").symlink_to(".git/HEAD")
    with pytest.raises(UsageError, match=r"this may be a secret: remote.txt"):
        pack_folder(folder)


def test_a_pipe_is_not_waited_for(folder):
    os.mkfifo(folder / "pipe")
    os.mkfifo(folder / "src/pipe.gitignore")
    assert "pipe" not in pack_folder(folder).sizes


# --- following --------------------------------------------------------------------------------------------


def steps(*statuses):
    """Returns the emitted transitions of an object that goes through these states."""
    seen, job = ReportedState(), Job("digits", (Role(command=("true",)),))
    events = [event for status in statuses for event in new_events(seen, JobState("team/digits", 1, job, status))]
    return [event["after"] for event in events]


def test_every_observed_transition_is_emitted():
    lives = [Status(phase, generation=int(phase is not Phase.QUEUED)) for phase in (Phase.QUEUED, Phase.ADMITTED)]

    assert steps(*lives, Status(Phase.RUNNING, generation=1)) == ["Queued", "Admitted", "Running"]


def test_a_missed_start_is_emitted():
    assert steps(Status(Phase.SUCCEEDED, generation=1)) == ["Admitted", "Succeeded"]


def test_a_missed_restart_is_emitted():
    lives = Status(Phase.RUNNING, generation=1), Status(Phase.RUNNING, generation=2)

    assert steps(*lives) == ["Admitted", "Running", "Restarting", "Admitted", "Running"]


IMAGE = DiagnosedCause(1, "The image cannot be pulled", "image-pull")
CLAIM = DiagnosedCause(1, "A claim is not bound", "volume-claim")
WAITING = Status(Phase.ADMITTED, generation=1)


def told(*looks):
    """Returns the verdicts that are emitted on an object with these states and verdicts on its wait."""
    seen, job, found = ReportedState(), Job("digits", (Role(command=("true",)),)), []
    for status, wait in looks:
        condition = diagnosis_condition(status, wait)
        found += new_diagnoses(seen, JobState("team/digits", 1, job, status), (condition,) if condition else ())
    assert all((event["type"], event["event"]) == ("transition", "Diagnosed") for event in found)
    return [event["message"] for event in found]


def test_a_verdict_on_a_wait_is_emitted_once_and_again_when_it_changes():
    image, claim = "attempt 1 waits: The image cannot be pulled", "attempt 1 waits: A claim is not bound"
    assert told((WAITING, None), (WAITING, IMAGE), (WAITING, None), (WAITING, IMAGE)) == [image]
    assert told((WAITING, IMAGE), (WAITING, CLAIM), (WAITING, IMAGE)) == [image, claim, image]


def test_a_verdict_on_an_attempt_is_emitted_once_and_not_at_the_end_of_the_job():
    failed = Status(Phase.RESTARTING, generation=1, diagnosis=DiagnosedCause(1, "A rank was killed", "signal-9"))
    waits = replace(failed, phase=Phase.ADMITTED, generation=2)
    second = DiagnosedCause(2, "The image cannot be pulled", "image-pull")
    expected = ["attempt 1: A rank was killed", "attempt 2 waits: The image cannot be pulled"]
    assert told((failed, None), (waits, None), (waits, second), (waits, None)) == expected
    assert told((replace(failed, phase=Phase.FAILED), None)) == []


# --- commands in pods ---------------------------------------------------------------------------------------


def test_the_exit_code_of_a_command_is_in_its_status():
    failed = {"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "3"}]}}

    assert read_exit_code({"status": "Success"}) == 0
    assert read_exit_code(failed) == 3
    assert read_exit_code({"status": "Failure", "message": "no such program"}) == 1


# --- where the operator is, and what is configured ------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "namespace", "expected"),
    [
        ("/v1/ping", None, "status"),
        ("/v1/nodes", "a", "nodes"),
        ("/v1/jobs", None, "jobs"),
        ("/v1/jobs", "a", "namespaces/a/jobs"),
        ("/v1/why", "a", "namespaces/a/reasons"),
        ("/v1/history", "a", "namespaces/a/history"),
        ("/v1/snapshot", None, "snapshots/current"),
        ("/v1/jobs/a/digits", None, "namespaces/a/jobs/digits"),
        ("/v1/jobs/a/pytorchjob/digits", "b", "namespaces/a/jobs/pytorchjob:digits"),
        ("/v1/jobs/a/pytorchjob/digits/why", None, "namespaces/a/jobs/pytorchjob:digits/why"),
        ("/v1/jobs/a/digits/logs", None, "namespaces/a/jobs/digits/log"),
        ("/v1/jobs/a/why", None, "namespaces/a/jobs/why"),
        ("/v1/jobs/a/d g/why", None, "namespaces/a/jobs/d%20g/why"),
        ("/v1/prospects/a/digits", None, "namespaces/a/jobs/digits/prospect"),
    ],
)
def test_queries_of_the_daemon_have_paths_in_the_aggregated_api(path, namespace, expected):
    assert query_path(path, namespace) == f"/apis/queries.windlass.dev/v1/{expected}"


@pytest.fixture
def config(monkeypatch, tmp_path):
    file = tmp_path / "config.yaml"
    monkeypatch.setenv("WINDLASS_CONFIG", str(file))
    return file


def test_the_config_file_sets_defaults(config):
    config.write_text("on: lab\nnamespace: team\nimage: example.com/base:1\n")

    assert configured() == Config(on="lab", namespace="team", image="example.com/base:1")


def test_without_a_file_nothing_is_configured(config):
    assert configured() == Config()


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("imagee: x\n", r"config.yaml:1:1: unknown field 'imagee'; did you mean 'image'"),
        ("on: lab\nimage: [a]\n", r"config.yaml:2:8: image expects a text"),
        ("- on\n", r"config.yaml:1:1: expects fields: on, namespace"),
        ("on: [\n", r"config.yaml:"),
    ],
)
def test_a_mistake_in_the_config_file_is_reported_with_its_line(config, written, message):
    config.write_text(written)

    with pytest.raises(InputError, match=message):
        configured()

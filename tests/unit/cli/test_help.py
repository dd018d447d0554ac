"""Help of every verb and option, job options as fields of a job file, and completion."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields

import pytest

from windlass.backends.port import BackendError
from windlass.backends.simulator.traces.read import FORMATS
from windlass.cli import entry
from windlass.cli.verb_table import VERBS
from windlass.jobs.description.options import RunOptions, flags_of, help_of
from windlass.server.errors import ApiError, ErrorCode

DESCRIBE_A_JOB = ("run", "submit", "alloc", "render")


def options(verb: str):
    return {each.name: each for each in entry.load_verb(verb).params}


NO_HEADER_VERBS = ("squeue", "sinfo")
"""Verbs whose -h is --noheader, as in Slurm."""


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_and_option_has_help(windlass, verb):
    ran = windlass(verb, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"Usage: windlass {verb} ")
    command = entry.load_verb(verb)
    assert command.help
    assert VERBS[verb][1][0].isupper()
    for parameter in command.params:
        assert parameter.help, f"{verb} {parameter.name}"
        assert parameter.help[-1] in ".…" or parameter.name == "help", f"{verb} {parameter.name}"
    for flag in (
        flag for parameter in command.params if parameter.param_type_name == "option" for flag in parameter.opts
    ):
        assert re.search(rf"(^|[ ,]){re.escape(flag)}\b", ran.out, re.MULTILINE), flag
    if verb not in NO_HEADER_VERBS:
        assert windlass(verb, "-h").out == ran.out


def test_the_overview_lists_every_verb_with_its_help(windlass):
    overview = windlass("--help").out
    for verb, (_, text) in VERBS.items():
        assert re.search(rf"^  {verb} +{re.escape(text)}$", overview, re.MULTILINE)


@pytest.mark.parametrize("verb", DESCRIBE_A_JOB)
def test_the_options_of_a_job_are_the_fields_of_job_files(verb):
    found = options(verb)
    for field in fields(RunOptions):
        assert tuple(found[field.name].opts) == tuple(flag.split("/")[0] for flag in flags_of(field.name))
        assert found[field.name].help == help_of(field.name)
        assert found[field.name].default in (None, ())


@pytest.mark.parametrize("verb", DESCRIBE_A_JOB)
def test_no_two_options_of_a_verb_have_one_name(verb):
    names = [flag for parameter in entry.load_verb(verb).params for flag in parameter.opts]
    assert len(names) == len(set(names))


def test_every_option_of_a_job_sets_its_field(windlass):
    given = {
        "name": ("x", "name: x"),
        "nodes": ("3", "nodes: 3"),
        "gpus": ("2", "gpus: 2"),
        "gpu_type": ("H100,A100", "- H100\n- A100"),
        "affinity": ("zone in (a,b), !spot", "- zone in (a,b), !spot"),
        "avoid": ("n3,n4", "- n3\n- n4"),
        "whole_node": (None, "whole_node: true"),
        "topology": ("rack,preferred", "level: rack\n  preferred: true"),
        "preemptible": (None, "preemptible: true"),
        "procs": ("4", "procs: 4"),
        "mesh": ("dp=*,tp=2", "WINDLASS_MESH: dp=*,tp=2"),
        "cpus": ("1500m", "cpus: 1500m"),
        "mem": ("2Gi", "mem: 2Gi"),
        "queue": ("research", "queue: research"),
        "priority": ("-7", "priority: -7"),
        "time": ("90m", "time: 1h30m"),
        "deadline": ("3h", "deadline: 3h"),
        "start_timeout": ("30m", "start_timeout: 30m"),
        "unreachable_grace": ("45m", "unreachable_grace: 45m"),
        "ttl": ("2d", "ttl: 2d"),
        "grace": ("45s", "grace: 45s"),
        "restarts": ("9", "user: 9"),
        "array": ("1,3%2", "array: 1,3%2"),
        "workdir": ("/w", "workdir: /w"),
        "launcher": ("agent", "launcher: agent"),
        "agent": ("inject", "agent: inject"),
        "suspend": (None, "suspend: true"),
        "image": ("digits:1", "image: digits:1"),
        "network": ("efa,count=4", "network: efa,count=4"),
        "env": ("GRÖSSE=1", "nothing"),
        "selector": ("zone=a", "zone: a"),
        "after": ("any:prep", "any:prep"),
        "begin": ("2099-11-28T08:00Z", "begin: '2099-11-28T08:00:00Z'"),
    }
    other_ways = {"gpu_share": ("0.5", "gpu_share: 0.5"), "mig": ("3g.20gb", "mig: 3g.20gb")}
    repeated = {
        "cron": ("0 3 * * MON", "cron: 0 3 * * MON"),
        "time_zone": ("Europe/Berlin", "time_zone: Europe/Berlin"),
        "cron_policy": ("queue", "cron_policy: queue"),
        "cron_deadline": ("10m", "cron_deadline: 10m"),
        "cron_keep": ("7", "cron_keep: 7"),
        "cron_keep_failed": ("5", "cron_keep_failed: 5"),
    }
    assert set(given) | set(other_ways) | set(repeated) == {field.name for field in fields(RunOptions)}
    for name, (value, message) in other_ways.items():
        assert message in windlass("render", flags_of(name)[-1], value, "--", "python", "train.py").out
    words = [word for name, (value, _) in repeated.items() for word in (flags_of(name)[-1], value)]
    shown = windlass("render", *words, "--", "python", "train.py").out
    assert all(message in shown for _, message in repeated.values())
    given["env"] = ("SIZE=größe", "SIZE: größe")
    words = [word for name, (value, _) in given.items() for word in (flags_of(name)[-1].split("/")[0], value) if word]
    ran = windlass("render", *words, "--", "python", "träin.py")
    assert (ran.code, ran.err) == (0, "")
    for name, (_, message) in given.items():
        assert message in ran.out, name


def test_a_second_cron_is_refused(windlass):
    ran = windlass("submit", "--cron", "0 3 * * *", "--cron", "0 15 * * *", "--", "python", "train.py")
    assert ran.code == 2
    assert "Invalid value for --cron: 2 are given, but a schedule has one" in ran.err
    assert "'0 3,15 * * *'" in ran.err


def test_options_after_the_command_belong_to_the_command(windlass):
    ran = windlass("render", "-N", "2", "--", "python", "train.py", "-N", "7", "--name=y")
    assert "nodes: 2" in ran.out
    assert "-N" in ran.out.partition("command:")[2]


def test_help_of_simulate_lists_every_format_and_does_without_the_simulator(windlass):
    output = " ".join(windlass("simulate", "--help").out.split())
    listed = re.search(r"if not recognised: (.*) \(of Windlass", output)
    assert set(re.split(", | or ", listed[1])) == set(FORMATS)
    code = "import sys; from windlass.cli.entry import main; main(sys.argv[1:]); print('numpy' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code, "simulate", "--help"], capture_output=True, text=True, check=True)
    assert ran.stdout.endswith("\nFalse\n")


# --- completion ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shell", "message"),
    [
        ("bash", "complete -o default -F _windlass_completion windlass"),
        ("zsh", "#compdef windlass"),
        ("fish", "complete --command windlass"),
    ],
)
def test_the_script_of_each_shell(windlass, shell, message):
    ran = windlass("completion", shell)
    assert (ran.code, ran.err) == (0, "")
    assert message in ran.out
    assert f"_WINDLASS_COMPLETE=complete_{shell}" in ran.out


def test_an_unknown_shell_is_refused_with_the_known_ones(windlass):
    ran = windlass("completion", "tcsh")
    assert ran.code == 2
    assert "'bash', 'zsh', 'fish'" in ran.err


def offered(windlass, monkeypatch, words: str) -> list[str]:
    """Returns the completions of bash at the end of these words."""
    monkeypatch.setenv("_WINDLASS_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    return windlass().out.split()


def test_verbs_options_values_and_jobs_are_completed(daemon, windlass, monkeypatch):
    daemon.says["/v1/jobs"] = {"jobs": [{"id": "digits-1", "phase": "Running"}, {"id": "gpt-2", "phase": "Queued"}]}
    assert offered(windlass, monkeypatch, "windlass su") == ["submit", "suspend"]
    assert offered(windlass, monkeypatch, "windlass run --loc") == ["--local-nodes", "--local-gpus"]
    assert offered(windlass, monkeypatch, "windlass queue -o ") == ["table", "wide", "json", "jsonl", "yaml", "name"]
    assert offered(windlass, monkeypatch, "windlass run --network ro") == ["roce", "roce-sriov"]
    assert offered(windlass, monkeypatch, "windlass submit --validate ") == ["strict", "warn", "ignore"]
    assert offered(windlass, monkeypatch, "windlass cancel di") == ["digits-1"]
    daemon.says["/v1/reservations"] = {"reservations": [{"name": "exam", "state": "now"}]}
    assert offered(windlass, monkeypatch, "windlass reserve ex") == ["exam"]
    assert offered(windlass, monkeypatch, "windlass why ") == ["digits-1", "gpt-2"]


def test_completion_ignores_errors(daemon, windlass, monkeypatch):
    for trouble in (OSError(), BackendError("damaged"), ApiError(ErrorCode.NO_DAEMON, "none")):
        daemon.says["/v1/ping"] = trouble
        assert offered(windlass, monkeypatch, "windlass cancel di") == []

"""Job files by example: their jobs and their errors."""

import io
import os
from types import SimpleNamespace

import pytest

from windlass.core.model.job import Launcher, RestartPolicy, Toleration, VerdictUse
from windlass.jobs.description.job_file import load, loads
from windlass.jobs.description.options import RunOptions
from windlass.jobs.description.submission import array_members
from windlass.jobs.errors import InputError
from windlass.jobs.syntax import text as text_module
from windlass.jobs.syntax import yaml_tree


def the_job(text):
    return loads(text)[0].job


def error_of(text):
    with pytest.raises(InputError) as error:
        loads(text, source="job.yaml")
    return str(error.value)


def test_a_file_and_the_command_line_give_the_same_job():
    job = the_job("nodes: 2\ngpus: 4\nmem: 16Gi\ncommand: python train.py --lr 0.1\nworkdir: /srv\n")
    (role,) = job.roles
    assert (role.replicas, role.procs, role.resources) == (2, 4, {"gpu": 4, "memory": 16 * 2**30})
    assert role.command == ("python", "train.py", "--lr", "0.1")
    assert (job.name, job.workdir) == ("train", "/srv")


def test_roles_inherit_missing_fields_from_the_job():
    job = the_job("""
command: python train.py
env: {A: 1, B: 1}
selector: {zone: a}
roles:
  ps: {command: [python, ps.py], env: {B: 2}}
  worker: {replicas: 4, gpus: 1, selector: {type: h100}}
""")
    ps, worker = job.roles
    assert (ps.name, ps.replicas, ps.command, ps.env) == ("ps", 1, ("python", "ps.py"), {"A": "1", "B": "2"})
    assert (worker.replicas, worker.procs, worker.command) == (4, 1, ("python", "train.py"))
    assert worker.node_selector == {"zone": "a", "type": "h100"}


def test_text_is_kept_as_written():
    env = the_job("command: x\nenv: {A: 010, B: yes, C: 1e3, D: true, E: 'null', F: 1:30, G: 12e4567}").roles[0].env
    assert env == {"A": "010", "B": "yes", "C": "1e3", "D": "true", "E": "null", "F": "1:30", "G": "12e4567"}


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("python train.py --name 'a b'", ("python", "train.py", "--name", "a b")),
        ("python 'what?.py'", ("python", "what?.py")),
        ("cd x && python train.py", ("sh", "-ec", "cd x && python train.py")),
        ("python train.py --node $WINDLASS_NODE", ("sh", "-ec", "python train.py --node $WINDLASS_NODE")),
        ('echo "$HOME"', ("sh", "-ec", 'echo "$HOME"')),
        ("A=1 python train.py", ("sh", "-ec", "A=1 python train.py")),
    ],
)
def test_a_command_line_is_run_by_a_shell_only_if_it_needs_one(line, command):
    assert the_job(f"command: |-\n  {line}").roles[0].command == command


def test_a_command_of_several_lines_is_run_by_a_shell():
    job = the_job("command: |\n  pip install x\n  torchrun train.py\n")
    assert job.roles[0].command == ("sh", "-ec", "pip install x\ntorchrun train.py\n")
    assert (job.name, job.launcher) == ("train", Launcher.TORCHRUN)


def test_the_restart_policy_has_all_its_fields():
    job = the_job("""
command: x
restart: {user: 3, infrastructure: 9, backoff: 2s, backoff_max: 1h, healthy_after: 5m,
          retryable_exit_codes: [75], fatal_exit_codes: 2, verdict: act}
""")
    assert job.restart == RestartPolicy(
        user_limit=3,
        infrastructure_limit=9,
        backoff_base=2_000,
        backoff_max=3_600_000,
        healthy_after=300_000,
        retryable_exit_codes=(75,),
        fatal_exit_codes=(2,),
        verdict=VerdictUse.ACT,
    )


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("02:00:00", 7_200_000),
        ("10:30", 630_000),
        ("1-12:00:00", 129_600_000),
        ("1-12", 129_600_000),
        ("2d", 172_800_000),
    ],
)
def test_durations_are_written_with_units_or_as_slurm_does(written, ms):
    assert the_job(f"command: x\ntime: {written}").walltime == ms


def test_anchors_and_merges_save_typing():
    job = the_job("command: x\nroles:\n  a: &a {gpus: 2, mem: 1Gi}\n  b:\n    <<: *a\n    gpus: 1\n")
    assert [dict(role.resources) for role in job.roles] == [{"memory": 2**30, "gpu": 2}, {"memory": 2**30, "gpu": 1}]


def test_tolerations_and_labels():
    job = the_job("command: x\ntolerations: [{key: gpu, operator: Exists}]\nlabels: {team: vision, build: 7}")
    assert job.roles[0].tolerations == (Toleration("gpu", "Exists"),)
    assert job.labels == {"team": "vision", "build": "7"}


def test_null_means_no_limit():
    assert the_job("command: x\ntime: null\nmem: ~\narray:").walltime is None


def test_several_documents_are_several_jobs():
    first, second = loads("command: a.py\n---\ncommand: b.py\n---\n")
    assert (first.job.name, second.job.name) == ("a", "b")


def test_an_arrays_members_know_their_index():
    (array,) = loads("command: python train.py\narray: 0-2%2")
    assert [(id, job.name, job.array.index, job.array.limit) for id, job in array_members(array, "train-7")] == [
        ("train-7_0", "train", 0, 2),
        ("train-7_1", "train", 1, 2),
        ("train-7_2", "train", 2, 2),
    ]


# Errors


def test_an_error_shows_the_place_and_the_nearest_name():
    assert error_of("name: digits\ngpu: 4\ntme: 1h\ncommand: x") == (
        "job.yaml:2:1: unknown field 'gpu'; it is called 'gpus' here\n"
        "    2 | gpu: 4\n"
        "      | ^^^\n"
        "job.yaml:3:1: unknown field 'tme'; did you mean 'time'?\n"
        "    3 | tme: 1h\n"
        "      | ^^^"
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "job.yaml: the file holds no job; write for example command: python train.py"),
        ("hello", "job.yaml:1:1: a job is a mapping of fields, not 'hello'"),
        (
            "num_nodes: 2\nrun: python a.py",
            "job.yaml:2:1: this is a task of SkyPilot, not a job file; windlass import makes a job file of it",
        ),
        ("run: python a.py", "job.yaml:1:1: unknown field 'run'; it is called 'command' here"),
        ("- command: x", "job.yaml:1:1: a job is a mapping of fields, not a list"),
        ("nodes: 2", "job.yaml:1:1: the job has no command; write for example command: python train.py"),
        ("nodes: two", "job.yaml:1:8: nodes expects a whole number from 1 to 100000, not 'two'"),
        ("nodes: '2'", "job.yaml:1:8: nodes expects a whole number from 1 to 100000, not '2'"),
        ("nodes: 1e999", "job.yaml:1:8: nodes expects a whole number from 1 to 100000, not '1e999'"),
        ("nodes: [2]", "job.yaml:1:8: nodes expects one whole number from 1 to 100000, not a list"),
        ("nodes:", "job.yaml:1:1: nodes has no value; write one, or remove the line"),
        ("suspend: yes", "job.yaml:1:10: suspend expects true or false, not 'yes'"),
        ("mem: 16", "job.yaml:1:6: mem expects an amount of memory; 16 would be bytes. Write 16Gi or 16Mi"),
        ("time: 90", "job.yaml:1:7: time expects a duration with a unit: 90s, 90m or 90h"),
        ("command: ''", "job.yaml:1:10: command expects a command, not an empty line"),
        ("command: it's", "job.yaml:1:10: command expects balanced quotes (no closing quotation)"),
        ("command: []", "job.yaml:1:10: command is a line or a list of words, not an empty list"),
        ("command: [[a]]", "job.yaml:1:11: command expects words, not a list"),
        ("env: [A=1]", "job.yaml:1:6: env is a mapping such as {NCCL_DEBUG: INFO}, not a list"),
        ("env: {A=B: 1}", "job.yaml:1:7: 'A=B' cannot be the name of a variable"),
        ("env: {A: }", 'job.yaml:1:10: env.A expects text; write "" for an empty one'),
        ("env: {A: [1]}", "job.yaml:1:10: env.A expects one text, not a list"),
        ("roles: {}", "job.yaml:1:8: roles needs at least one role"),
        ("roles: {A: {command: x}}", "job.yaml:1:9: 'A' cannot be the name of a role"),
        ("roles: {a: {nodes: 2}}", "job.yaml:1:13: unknown field 'nodes'; it is called 'replicas' here"),
        ("roles: {a: {}}", "job.yaml:1:9: role 'a' has no command; write for example command: python train.py"),
        ("restart: {usr: 1}", "job.yaml:1:11: unknown field 'usr'; did you mean 'user'?"),
        ("name: a\nname: b", "job.yaml:2:1: 'name' is written twice; the first is in line 1"),
        ("cron: */5 * * * *", "job.yaml:1:8: a value that begins with '*' or '&' needs quotes around it"),
        ("env:\n\tA: 1", "job.yaml:2:1: a tab; YAML is indented with spaces"),
        ("name: 'abc\n", "job.yaml:2:1: the quotes opened before are never closed"),
        ("name: !!python/object:os.system x", "job.yaml:1:7: the tag tag:yaml.org,2002:python/object:os.syste has no "),
        ("a: *x", "job.yaml:1:4: the alias *x has no anchor &x before it"),
        ("a: &x [*x]", "job.yaml:1:8: the alias *x stands inside of what it names"),
        ("? [a]\n: b", "job.yaml:1:3: a name was expected before the ':', not a list or a mapping"),
        ('name: "a\\0b"', "job.yaml:1:7: a NUL or half a surrogate pair may not stand in a text"),
        (b"name: a\n\xff\xfe", "job.yaml:2:1: byte 0xff is not UTF-8 text; save the file as UTF-8"),
        (b"\xef\xbb\xbfname: \xff", "job.yaml:1:7: byte 0xff is not UTF-8 text; save the file as UTF-8"),
        (b"name: a\0b", "job.yaml:1:8: the character U+0000 may not stand in a text file"),
        ("[" * 500_000, "job.yaml:1:26: nested more than 24 levels deep"),
        ("[" + "a," * 400_000 + "]", "job.yaml:1:100000: more than 50000 values, aliases expanded"),
        ("command: x\nrestarts: 1\nrestart: {user: 1}", "job.yaml:2:1: restarts and restart.user say the same thing; "),
        ("command: x\nnodes: 2\nroles: {a: {}}", "job.yaml:2:1: nodes is for a job of one role; with roles write "),
    ],
)
def test_every_error_has_one_clear_line(text, line):
    assert error_of(text).startswith(line)


def test_an_alias_bomb_is_refused_before_it_grows():
    levels = "\n".join(f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]" for i in range(9))
    assert "more than 50000 values" in error_of(f"a: &a [x,x,x,x,x,x,x,x,x]\n{levels}")


def test_at_most_twenty_errors_are_reported():
    text = error_of("\n".join(f"x{i}: 1" for i in range(50)))
    assert text.count("unknown field") == 20
    assert text.endswith("and 30 more problems")


def test_the_caret_is_placed_under_wide_characters_and_in_long_lines():
    assert error_of("env: {名前: [1]}").splitlines()[1:3] == ["    1 | env: {名前: [1]}", "      |       ^^^^"]
    shown = error_of(f"command: {'x' * 5000}\nenv: {{A: {' ' * 5000}[1]}}").splitlines()
    assert shown[1][shown[2].index("^")] == "["


def test_terminals_see_escapes_instead_of_control_characters():
    assert "\x1b" not in error_of('"\\e[31mred": 1\n')


# From a file


def test_a_workdir_is_relative_to_the_files_folder(tmp_path):
    (tmp_path / "job.yaml").write_text("command: x\n---\ncommand: x\nworkdir: sub\n")
    first, second = load(str(tmp_path / "job.yaml"), user="ada")
    assert (first.job.workdir, second.job.workdir) == (str(tmp_path), str(tmp_path / "sub"))
    assert (first.job.user, first.source) == ("ada", str(tmp_path / "job.yaml"))


def test_a_pipe_is_a_file_in_the_current_folder(tmp_path):
    reading, writing = os.pipe()
    os.write(writing, b"command: x")
    os.close(writing)
    assert load(f"/dev/fd/{reading}", cwd="/srv")[0].job.workdir == "/srv"
    os.close(reading)


def test_standard_input_is_a_file_in_the_current_folder(monkeypatch):
    monkeypatch.setattr(text_module.sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"command: x\nnodes: 0")))
    with pytest.raises(InputError, match="<stdin>:2:8: nodes expects"):
        load("-", cwd="/srv")
    monkeypatch.setattr(text_module.sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"command: x")))
    assert load("-", cwd="/srv")[0].job.workdir == "/srv"
    monkeypatch.setattr(text_module.sys, "stdin", None)
    with pytest.raises(InputError, match="<stdin>: the file holds no job"):
        load("-", cwd="/srv")


def test_options_override_the_file(tmp_path):
    (tmp_path / "job.yaml").write_text("command: python train.py\ngpus: 2\nenv: {A: 1, B: 1}\nrestart: {user: 1}\n")
    options = RunOptions(gpus=4, env=("B=2",), restarts=5, workdir="sub", name="other")
    (submission,) = load(str(tmp_path / "job.yaml"), options, ("python", "x.py"), cwd="/here")
    (role,) = submission.job.roles
    assert (role.procs, role.resources, role.env) == (4, {"gpu": 4}, {"A": "1", "B": "2"})
    assert (submission.job.name, submission.job.workdir, role.command) == ("other", "/here/sub", ("python", "x.py"))
    assert submission.job.restart.user_limit == 5


def test_options_for_one_role_do_not_fit_several(tmp_path):
    (tmp_path / "job.yaml").write_text("command: x\nroles: {a: {}, b: {env: {A: 1}}}\n")
    with pytest.raises(InputError, match=r"--gpus: the job has roles \(a, b\); write gpus there"):
        load(str(tmp_path / "job.yaml"), RunOptions(gpus=4))
    (submission,) = load(str(tmp_path / "job.yaml"), RunOptions(env=("A=2",)))
    assert [role.env for role in submission.job.roles] == [{"A": "2"}, {"A": "2"}]


def test_one_name_does_not_fit_two_jobs(tmp_path):
    (tmp_path / "job.yaml").write_text("command: x\n---\ncommand: y\n")
    with pytest.raises(InputError, match="--name: the file holds 2 jobs"):
        load(str(tmp_path / "job.yaml"), RunOptions(name="a"))


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "big.yaml").write_bytes(os.urandom(10 << 20))
    for path, message in (
        (tmp_path / "none.yaml", "no such file"),
        (tmp_path, "this is a folder; name a file in it"),
        (tmp_path / "big.yaml", "the file is larger than 1 MiB; is it the right one?"),
        ("a\0b", "this cannot be the name of a file"),
    ):
        with pytest.raises(InputError, match=message.replace("?", r"\?")):
            load(str(path))


def test_the_slow_yaml_parser_replaces_a_missing_fast_one(monkeypatch):
    monkeypatch.setattr(yaml_tree, "_LOADER", yaml_tree.yaml.SafeLoader)
    assert the_job("command: [python, train.py]\nenv: {A: 010, B: '1'}").roles[0].env == {"A": "010", "B": "1"}
    assert error_of("nodes: two").startswith("job.yaml:1:8: nodes expects a whole number")
    assert error_of("env:\n\tA: 1").startswith("job.yaml:2:1: a tab")

"""Apps and config files of TorchX as jobs, their commands, and files that are refused."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from windlass.jobs.description.job_file import loads
from windlass.jobs.errors import InputError
from windlass.jobs.imported_file import import_file
from windlass.jobs.imports.imported_job import ImportedJob
from windlass.jobs.syntax.text import Text

CONFIGS = yaml.safe_load((Path(__file__).parent / "public_configs.yaml").read_text(encoding="utf-8"))
DDP = (
    "torchrun --rdzv_backend c10d --rdzv_endpoint $${${rank0_env}:=localhost}:29500 --rdzv_id '${app_id}' "
    "--nnodes 2 --nproc_per_node 4 --tee 3 --role '' train.py --name 'a b'"
)
"""The script that `dist.ddp -j 2x4 --script train.py -- --name "a b"` of TorchX 0.7 gives to bash."""


def app(*roles: dict, name: str = "trainer", **fields) -> ImportedJob:
    text = json.dumps({"name": name, "roles": list(roles), "metadata": {}, **fields}, indent=1)
    file = import_file(Text("app.json", text))
    loads(file.text("app.json"))
    return file.jobs[0]


def role(*words: str, **fields) -> dict:
    return {"name": "worker", "image": "pytorch:1", "entrypoint": words[0], "args": list(words[1:]), **fields}


def test_an_app_of_one_role_is_a_job():
    size = {"cpu": 8, "gpu": 2, "memMB": 4096, "capabilities": {}, "devices": {}}
    job = app(
        role("python", "t.py", num_replicas=2, max_retries=3, env={"A": "1"}, resource=size, port_map={"c10d": 29500})
    )
    assert job.fields == {
        "name": "trainer",
        "restarts": 3,
        "launcher": "torchrun",
        "nodes": 2,
        "gpus": 2,
        "cpus": 8,
        "mem": "4096Mi",
        "image": "pytorch:1",
        "env": {"A": "1"},
        "command": ["python", "t.py"],
    }
    assert not job.losses


def test_roles_are_those_of_the_job():
    job = app(
        role("python", "ps.py") | {"name": "ps"}, role("python", "w.py", num_replicas=4, min_replicas=2, max_retries=1)
    )
    assert job.fields["restarts"] == 1
    assert job.fields["roles"]["ps"]["command"] == ["python", "ps.py"]
    assert job.fields["roles"]["worker"]["elastic"] == {"min": 2, "max": 4}


def test_the_rendezvous_of_ddp_is_that_of_windlass():
    job = app(role("bash", "-c", DDP, num_replicas=2))
    assert job.fields["command"] == [
        *("torchrun", "--nproc_per_node", "4", "--tee", "3", "--role", "", "train.py", "--name", "a b")
    ]
    assert job.fields["procs"] == 4


def test_another_script_keeps_its_words():
    job = app(role("bash", "-c", f"{DDP}; echo done"))
    assert job.fields["command"][0] == "sh"
    assert "--rdzv_endpoint ${MASTER_ADDR:=localhost}:29500" in job.fields["command"][2]


def test_macros_have_the_values_of_the_start():
    job = app(
        role("printf", "%s|", "${app_id}", "it's $$5", "$replica_id.${img_root}", "${other}", env={"ID": "x-${app_id}"})
    )
    command = job.fields["command"]
    env = {"PATH": "/usr/bin:/bin", "WINDLASS_JOB_ID": "trainer-7", "WINDLASS_REPLICA": "3"}
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert ran.stdout == "trainer-7|it's $5|3.|${other}|"
    assert command[2].startswith('export ID=x-"$WINDLASS_JOB_ID"\n')


def test_a_part_without_equivalent_is_named_with_its_line():
    size = {"cpu": 1, "gpu": 0, "memMB": 1, "capabilities": {"type": "p4d"}, "devices": {"vpc.amazonaws.com/efa": 4}}
    mounts = [{"src": "v", "dst_path": "/v", "read_only": False}]
    job = app(
        role("x", resource=size, mounts=mounts, metadata={"kubernetes": {}}, retry_policy="REPLICA", image="/tmp/x"),
        role("y", max_retries=2) | {"name": "other"},
        name="My App",
        metadata={"a": "b"},
    )
    parts = {loss.part: loss.reason for loss in job.losses}
    assert set(parts) == {
        *(f"roles[0].{name}" for name in ("mounts", "metadata", "retry_policy", "image")),
        *("roles[0].resource.capabilities", "roles[0].resource.devices", "name", "metadata"),
    }
    assert job.losses[0].place.line == 2


def test_a_single_role_as_yaml_is_an_app():
    text = "name: one\nimage: a:1\nentrypoint: python\nargs: [train.py, --lr, 0.1]\nnum_replicas: 2\n"
    [job] = import_file(Text("role.yaml", text)).jobs
    assert (job.fields["nodes"], job.fields["command"]) == (2, ["python", "train.py", "--lr", "0.1"])


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config["repository"])
def test_config_files_of_public_repositories(config):
    text = Text(".torchxconfig", config["text"])
    if "error" in config:
        with pytest.raises(InputError, match=config["error"].replace("[", r"\[")):
            import_file(text, config.get("arguments", []))
        return
    file = import_file(text, config.get("arguments", []))
    loads(file.text(".torchxconfig"))
    assert file.jobs[0].fields["command"] == config["command"]
    assert [loss.part for loss in file.jobs[0].losses] == config.get("losses", [])


def test_options_win_over_the_file_and_words_of_the_program_follow():
    config = "[cli:run]\ncomponent = dist.ddp\nscheduler = slurm\n[component:dist.ddp]\nj = 1x2\nenv = A=1,B=2\n"
    config += "[slurm]\nqueue = big\n"
    arguments = ["-j", "2:4x8", "--gpu", "8", "--name", "exp/run", "-m", "pkg.train", "--", "--lr", "1"]
    [job] = import_file(Text("x", config), arguments).jobs
    assert job.fields == {
        "name": "run",
        "launcher": "torchrun",
        "elastic": {"min": 2, "max": 4},
        "gpus": 8,
        "cpus": 2,
        "mem": "1024Mi",
        "env": {"A": "1", "B": "2"},
        "command": ["torchrun", "--nproc_per_node", "8", "-m", "pkg.train", "--lr", "1"],
        "queue": "big",
    }


def test_options_without_an_equivalent_are_named_wherever_they_stand():
    config = "[cli:run]\ncomponent = dist.ddp\n[component:dist.ddp]\nscript = a.py\nrdzv_port = 4\n"
    [job] = import_file(Text("x", config), ["--mounts", "type=bind,src=/a,dst=/b"]).jobs
    assert [(loss.part, loss.place.line) for loss in job.losses] == [("mounts", 1), ("rdzv_port", 5)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"roles": []}', "roles expects at least one role"),
        ('{"roles": [{"image": "a"}]}', "a role lacks entrypoint: the program that it runs"),
        ('{"roles": [{"entrypoint": "a", "imge": "b"}]}', "unknown field roles[0].imge; did you mean 'image'?"),
        ('{"roles": [{"entrypoint": "a", "num_replicas": 0}]}', "num_replicas expects a whole number from 1"),
        ('{"roles": [{"entrypoint": "a", "args": "b"}]}', "roles[0].args expects a list"),
        (
            "[component:dist.ddp]\nscrpt = a\n[cli:run]\ncomponent = dist.ddp\n",
            "has no option 'scrpt'; did you mean 'script'?",
        ),
        ("[component:dist.ddp]\nj = two\nscript=a\n[cli:run]\ncomponent = dist.ddp\n", "expects nodes and processes"),
        (
            "[component:dist.ddp]\nh = big\n[cli:run]\ncomponent = dist.ddp\n",
            "is a named resource, which TorchX alone knows",
        ),
        ("[cli:run]\ncomponent = dist.ddp\n", "expects a program: write one of script, m"),
        ("[cli:run]\ncomponent = utils.sh\n[component:utils.sh]\ncpus = 2\n", "utils.sh has no option 'cpus'"),
        ("[cli:run]\ncomponent = utils.sh\n[component:utils.sh]\nargs = 'a\n", "args expects balanced quotes"),
        ("[cli:run]\nnonsense\n", "expects [a section], or an option such as cpu = 4 below one"),
    ],
)
def test_wrong_files_are_one_error(text, message):
    with pytest.raises(InputError) as raised:
        import_file(Text("app", text))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dist.ddp", "--bogus", "3"], "command line: dist.ddp has no option --bogus"),
        (["dist.ddp", "--cpu", "x"], "command line: dist.ddp --cpu expects a whole number, not 'x'"),
        (["dist.ddp", "--cpu"], "command line: --cpu expects a value"),
    ],
)
def test_a_wrong_option_of_the_command_line_is_named_there(words, message):
    with pytest.raises(InputError) as raised:
        import_file(Text(".torchxconfig", "# defaults\n[component:dist.ddp]\nscript = a.py\n"), words)
    assert str(raised.value).startswith(message)

"""The command line of sbatch: which options it has, and which of several wins."""

import pytest

from windlass.jobs.errors import InputError
from windlass.jobs.slurm.imported_job import import_script
from windlass.jobs.slurm.sbatch_command import SbatchCommandError, read_command, wrapped_script
from windlass.jobs.syntax.text import Text

SCRIPT = "#!/bin/bash\n#SBATCH -J train --nodes=4 --no-requeue\nsrun ./train $1\n"


def fields(words, environment=None, script=SCRIPT):
    command = read_command(words.split(), environment or {})
    return import_script(Text("train.sbatch", script), command.words[1:], command.options).fields


def test_options_end_at_the_script_and_its_arguments_are_its_own():
    command = read_command(["-N", "2", "--gres=gpu:1", "job.sbatch", "-N", "9", "--x"], {})
    assert [(each.name, each.value) for each in command.options] == [("--nodes", "2"), ("--gres", "gpu:1")]
    assert command.words == ("job.sbatch", "-N", "9", "--x")


def test_without_a_script_it_is_standard_input():
    assert read_command([], {}).script == "-"


def test_the_command_line_wins_over_the_environment_and_that_over_the_script():
    environment = {"SBATCH_JOB_NAME": "of-environment", "SBATCH_TIMELIMIT": "60"}
    assert fields("", environment)["name"] == "of-environment"
    assert fields("", environment)["time"] == "1h"
    assert fields("-J of-line job", environment)["name"] == "of-line"
    assert fields("--nodes=2 job")["nodes"] == 2
    assert fields("job")["nodes"] == 4


def test_requeue_takes_back_what_the_script_says():
    assert fields("job")["restart"] == {"infrastructure": 0}
    assert "restart" not in fields("--requeue job")
    assert fields("job", {"SBATCH_NO_REQUEUE": "1"}, SCRIPT.replace("--no-requeue", ""))["preemptible"] is False


def test_an_array_a_dependency_and_a_hold():
    found = fields("-a 0-3%2 --dependency=afterok:prep-1,afterany:clean -H job")
    assert (found["array"], found["after"], found["suspend"]) == ("0-3%2", ["prep-1", "any:clean"], True)


def test_options_hold_for_the_first_component_of_a_heterogeneous_job():
    script = "#!/bin/bash\n#SBATCH -N 1\n#SBATCH hetjob\n#SBATCH -N 3\nsrun ./train : ./serve\n"
    roles = fields("-N 2 job", script=script)["roles"]
    assert [role.get("replicas", 1) for role in roles.values()] == [2, 3]


def test_a_script_needs_no_options_of_its_own():
    assert fields("-N 2 job", script="#!/bin/sh\nsrun hostname\n")["nodes"] == 2
    with pytest.raises(InputError, match="it begins with #!"):
        fields("-N 2 job", script="srun hostname\n")


def test_a_wrapped_command_is_a_script():
    command = read_command(["--wrap", "echo $HOME; sleep 1", "-n1"], {})
    job = import_script(wrapped_script(command.call["--wrap"]), (), command.options)
    assert job.fields["name"] == "wrap"
    assert "echo $HOME; sleep 1\n" in job.fields["command"][-2:][0] + job.fields["command"][-1]


def test_options_of_windlass_and_of_the_call_are_apart():
    command = read_command(["--parsable", "-W", "--on", "kubernetes", "--state=/s", "job"], {"SBATCH_WAIT": "1"})
    assert command.call == {"--wait": "", "--parsable": "", "--on": "kubernetes", "--state": "/s"}
    assert not command.options


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--node=2", "job"], "unrecognized option '--node'; did you mean"),
        (["-Z", "job"], "unrecognized option '-Z'"),
        (["--time"], "--time expects a value"),
        (["--on"], "--on expects a value"),
        (["--wrap", "true", "job"], "a script is not permitted with --wrap"),
    ],
)
def test_a_wrong_command_line_is_refused(words, message):
    with pytest.raises(SbatchCommandError, match=message):
        read_command(words, {})


def test_a_wrong_value_names_the_option():
    with pytest.raises(InputError, match="command line: --time expects minutes"):
        fields("-t soon job")


def test_a_loss_of_the_command_line_says_so():
    command = read_command(["--mail-type=END", "job"], {})
    job = import_script(Text("train.sbatch", SCRIPT), (), command.options)
    assert str(job.losses[0]).startswith("command line: --mail-type: no mail is sent")

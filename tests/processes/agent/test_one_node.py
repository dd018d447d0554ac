"""One agent and its ranks: start, watch, restart, end. Most of these tests run without torch, which is fast."""

import os
import re
import signal
import sys
import zipfile
from pathlib import Path

import pytest

from windlass import wire
from windlass.agent import pack
from windlass.launch.agent import agent_words

WAITS = """
import os, sys, time
rank, generation = os.environ["RANK"], os.environ["WINDLASS_GENERATION"]
print(f"rank {rank} generation {generation} pid {os.getpid()}")
while generation == "1":
    time.sleep(0.05)
"""
LEAVES_A_CHILD = "import subprocess\nsubprocess.Popen(['sleep', '1000'])\n" + WAITS


def test_the_ranks_of_one_agent_share_a_secret_that_no_other_run_has(bare):
    script = "import os\nprint('secret', os.environ['WINDLASS_GANG_SECRET'])"
    agents = [bare("--nproc-per-node=2", "SCRIPT", script=script) for _ in range(2)]
    assert [agent.ends() for agent in agents] == [0, 0]
    first, second = (re.findall(r"secret ([0-9a-f]{64})\n", agent.output) for agent in agents)
    assert first[0] == first[1] != second[0] == second[1]


# --- ends -----------------------------------------------------------------------------------------------


def test_a_killed_rank_starts_a_new_generation_and_a_line_shows_its_stages(bare):
    agent = bare("--nproc-per-node=3", "--max-restarts=1", "SCRIPT", script=WAITS)
    pids = [agent.pid_of(rank) for rank in range(3)]
    os.kill(pids[1], signal.SIGKILL)
    assert agent.ends() == 0
    assert f"rank 1 (pid {pids[1]}) killed by SIGKILL; generation 2 after 0." in agent.output
    assert all(f"{stage} 0." in agent.output for stage in ("detected", "stopped", "spawned"))
    assert agent.output.count("generation 2 pid") == 3


def test_a_script_that_fails_shows_its_own_traceback_and_the_run_fails(bare):
    agent = bare("SCRIPT", script="def f():\n    raise ValueError('no such thing')\nf()\n")
    assert agent.ends() == 1
    trace = agent.output[agent.output.index("Traceback") :]
    assert trace.count("File ") == 2
    assert "ValueError: no such thing" in trace
    assert re.search(r"the run has failed: rank 0 \(pid \d+\) exited with 1: ValueError: no such thing\n", agent.output)


STUCK_THREAD = """
import sys, threading
threading.Thread(target=threading.Event().wait).start()
print("the last line", end="")
"""


@pytest.mark.parametrize(("end", "code"), [("raise ValueError('no such thing')", 1), ("sys.exit(85)", 85)])
def test_a_failed_rank_ends_with_its_code_while_a_thread_waits_forever(bare, end, code):
    agent = bare("SCRIPT", script=STUCK_THREAD + end, **{wire.EXIT_TIMEOUT: "1"})
    assert agent.ends() == code
    assert "the last line" in agent.output
    assert re.search(rf"rank 0 \(pid \d+\) exited with {code}", agent.output)


def test_a_failed_rank_runs_the_exit_functions_of_its_script_and_no_destructor(bare):
    script = """
import atexit
class Group:
    def __del__(self):
        print("a destructor ran", flush=True)
kept = Group()
atexit.register(print, "the script's exit function")
raise ValueError("no such thing")
"""
    agent = bare("SCRIPT", script=script)
    assert agent.ends() == 1
    assert "the script's exit function" in agent.output
    assert "a destructor ran" not in agent.output


def test_a_child_that_ends_during_the_report_of_an_error_does_not_cut_it_off(bare):
    script = """
import os, signal, sys
def on_child(*_):
    raise RuntimeError("a worker was killed")
def report(*error):
    os.kill(os.getpid(), signal.SIGCHLD)
    sys.__excepthook__(*error)
signal.signal(signal.SIGCHLD, on_child)
sys.excepthook = report
raise ValueError("no such thing")
"""
    agent = bare("SCRIPT", script=script)
    assert agent.ends() == 1
    assert "\nValueError: no such thing\n" in agent.output
    assert "exited with 1: ValueError: no such thing\n" in agent.output
    assert "a worker was killed" not in agent.output


def test_the_text_of_sys_exit_is_printed_with_the_ranks_end(bare):
    agent = bare("SCRIPT", script="import sys\nsys.exit('no data in /data')\n")
    assert agent.ends() == 1
    assert re.search(r"rank 0 \(pid \d+\) exited with 1: no data in /data\n", agent.output)


def test_a_script_that_cannot_be_parsed_fails_with_its_error(bare):
    agent = bare("SCRIPT", script="x = = 1\n")
    assert agent.ends() == 1
    assert agent.output.count("File ") == 1
    assert "SyntaxError: invalid syntax" in agent.output
    missing = bare("nowhere.py")
    assert missing.ends() == 1
    assert "there is no script" in missing.output


def test_exit_codes_decide_what_follows_an_end(bare):
    script = "import os, sys\nsys.exit(int(sys.argv[int(os.environ['WINDLASS_GENERATION'])]))"
    assert bare("SCRIPT", "83", "84", "0", script=script).ends() == 0
    assert bare("--max-restarts=3", "SCRIPT", "1", "85", "0", script=script).ends() == 85
    assert bare("--max-restarts=1", "SCRIPT", "1", "1", "0", script=script).ends() == 1


def test_the_run_survives_the_loss_of_the_fork_server(bare, mark):
    agent = bare("--nproc-per-node=2", "SCRIPT", script=WAITS)
    agent.pid_of(0)
    parent = int(Path(f"/proc/{agent.pid_of(1)}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(parent, signal.SIGKILL)
    assert agent.ends() == 0
    assert "generation 2 pid" in agent.output


def test_a_killed_agent_leaves_no_rank_and_no_child_of_one(bare):
    agent = bare("--nproc-per-node=2", "SCRIPT", script=LEAVES_A_CHILD)
    agent.pid_of(0), agent.pid_of(1)
    agent.process.kill()
    agent.process.wait()  # the fixture sees to it that nothing else is there


LEAVES_ITS_GROUP = """
import os, subprocess, sys, time
from pathlib import Path
if os.environ["WINDLASS_GENERATION"] == "1":
    nested = "import subprocess, time; subprocess.Popen(['sleep', '1000'], start_new_session=True); time.sleep(1000)"
    left = subprocess.Popen([sys.executable, "-c", nested], start_new_session=True)
    print(f"rank 0 generation 1 pid {left.pid}")
    time.sleep(float(sys.argv[1]))
    sys.exit(1)
print("left behind:", [each.name for each in Path("/proc").iterdir() if each.name.isdecimal() and is_mine(each)])
"""
IS_MINE = """
def is_mine(process):
    try:
        return b"sleep" in (process / "cmdline").read_bytes() and MARK in (process / "environ").read_bytes()
    except OSError:
        return False
"""


def test_processes_that_left_the_group_of_their_rank_end_before_the_next_generation(bare, mark):
    """As an inference server or a tracker's service does; it would hold the memory of its GPU."""
    script = f"MARK = {mark.encode()!r}\n{IS_MINE}{LEAVES_ITS_GROUP}"
    agent = bare("--max-restarts=1", "SCRIPT", "0.3", script=script)
    assert agent.ends() == 0
    assert "left behind: []" in agent.output


def test_a_killed_agent_leaves_no_process_that_left_the_group_of_its_rank(bare):
    agent = bare("SCRIPT", "1000", script=LEAVES_ITS_GROUP)
    agent.pid_of(0)
    agent.process.kill()
    agent.process.wait()  # the fixture sees to it that nothing else is there


# --- signals --------------------------------------------------------------------------------------------


def test_ranks_without_a_handler_end_by_sigterm(bare):
    agent = bare("--nproc-per-node=2", "SCRIPT", script=WAITS)
    agent.pid_of(0), agent.pid_of(1)
    agent.process.terminate()
    assert agent.ends() == 128 + signal.SIGTERM


def test_ranks_may_save_on_sigterm_and_choose_the_exit_code(bare):
    script = "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(83))\n" + WAITS
    agent = bare("--nproc-per-node=2", "--max-restarts=3", "SCRIPT", script=script)
    agent.pid_of(0), agent.pid_of(1)
    agent.process.terminate()
    assert agent.ends() == wire.RankExitCode.PREEMPTED
    assert "generation 2" not in agent.output


def test_an_agent_that_still_imports_torch_ends_at_once_by_sigterm(bare, tmp_path):
    (tmp_path / "no/torch.py").write_text("print('importing', flush=True)\nimport time\ntime.sleep(600)")
    agent = bare("--nproc-per-node=2", "SCRIPT", script=WAITS)
    agent.until("importing")
    agent.process.terminate()
    assert agent.ends() == 128 + signal.SIGTERM
    assert "Traceback" not in agent.output


def test_ranks_that_ignore_sigterm_are_killed_after_the_grace_period(bare):
    script = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WAITS
    agent = bare("--shutdown-timeout=0", "SCRIPT", script=script)
    agent.pid_of(0)
    agent.process.terminate()
    assert agent.ends() == 128 + signal.SIGKILL


def test_children_of_ranks_get_sigterm_with_them(bare):
    child = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: (print('the child may leave'), sys.exit()))"
    )
    script = f"""
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-uc", {child + "; print('it is there'); time.sleep(1000)"!r}])
signal.signal(signal.SIGTERM, lambda *_: (print("asked"), child.wait(), sys.exit(83)))
time.sleep(1000)
"""
    agent = bare("SCRIPT", script=script)
    agent.until("it is there")
    agent.process.terminate()
    assert agent.ends() == wire.RankExitCode.PREEMPTED
    assert (agent.output.count("the child may leave"), agent.output.count("asked")) == (1, 1)


# --- what ranks see and say ------------------------------------------------------------------------------


def test_modules_programs_and_arguments(bare, tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__main__.py").write_text("import sys\nprint(__name__, sys.argv[1:], sys.path[0])")
    module = bare("-m", "package", "a", "${local_rank}")
    assert module.ends() == 0
    assert f"__main__ ['a', '0'] {tmp_path}" in module.output
    program = bare("--no-python", "--nproc-per-node=2", "sh", "-c", "echo rank $RANK of $WORLD_SIZE")
    assert program.ends() == 0
    assert "rank 1 of 2" in program.output
    assert bare("--no-python", "no-such-program").ends() == 1


@pytest.mark.parametrize("command", ["python script.py", "python -m script", f"{sys.executable} -S script.py"])
def test_a_command_as_an_agents_keeps_every_word(bare, command):
    words = ["a", "--", "--nnodes", "7", "--"]
    agent = bare(*agent_words([*command.split(), *words]), script="import sys\nprint(sys.argv[1:])")
    assert agent.ends() == 0
    assert f"{words}\n" in agent.output


def test_streams_go_to_files_in_torchruns_layout(bare, tmp_path):
    script = "import os, sys\nprint('out', os.environ['RANK'])\nprint('err', file=sys.stderr)"
    agent = bare("--nproc-per-node=2", "--log-dir=logs", "--rdzv-id=r", "-t=1", "-r=0:2", "SCRIPT", script=script)
    assert agent.ends() == 0
    [run] = (tmp_path / "logs").iterdir()
    assert run.name.startswith("r_")
    assert (run / "attempt_0/0/stdout.log").read_text() == "out 0\n"
    assert (run / "attempt_0/0/stderr.log").read_text() == "err\n"
    assert (run / "attempt_0/1/stdout.log").read_text() == "out 1\n"
    assert not (run / "attempt_0/1/stderr.log").exists()
    assert "[default0]:out 0\n" in agent.output
    assert agent.output.count("err\n") == 1


def test_without_torch_rank_0_hosts_the_store_and_a_line_says_so(bare):
    agent = bare("SCRIPT", script="import os\nprint('agent', os.environ['TORCHELASTIC_USE_AGENT_STORE'])")
    assert agent.ends() == 0
    assert "there is no torch here: rank 0 hosts the store" in agent.output
    assert "agent False" in agent.output


def test_a_rank_imports_the_same_modules_as_without_an_agent(bare, tmp_path):
    (tmp_path / "there/windlass").mkdir(parents=True)
    (tmp_path / "there/windlass/__init__.py").write_text("")
    (tmp_path / "there/windlass/train.py").write_text("print('the one beside the script')")
    (tmp_path / "there/script.py").write_text("import windlass.train")
    agent = bare("there/script.py")
    assert agent.ends() == 0
    assert "the one beside the script" in agent.output


# --- hangs ----------------------------------------------------------------------------------------------

BEATS = """
import os, socket, sys, time
sys.path.insert(0, sys.argv[1])
from windlass import wire
rank, generation = int(os.environ["RANK"]), int(os.environ["WINDLASS_GENERATION"])
agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
agent.connect(os.environ[wire.AGENT_SOCKET])
def enter(step, phase, beat):
    agent.send(wire.encode(wire.Heartbeat(rank, generation, step, phase, beat)))
for step in range(10):
    enter(step, "forward", 2 * step)
    time.sleep(0.01)
    enter(step, "backward", 2 * step + 1)
    time.sleep(0.01)
def waits_for_a_lock_that_nobody_opens():
    while generation == 1:
        time.sleep(0.05)
enter(10, "forward", 20)
if rank == 0:
    enter(10, "backward", 21)
waits_for_a_lock_that_nobody_opens()
"""


def test_a_rank_that_hangs_is_named_with_its_stacks_and_all_restart(bare):
    words = [
        "--nproc-per-node=2",
        "--max-restarts=1",
        "--hang=floor=0.5,factor=2",
        "SCRIPT",
        str(Path(wire.__file__).parents[1]),
    ]
    agent = bare(*words, script=BEATS)
    assert agent.ends() == 0
    assert "hang: rank 1 is in forward of step 10 for" in agent.output
    assert "rank 0 is in backward of step 10; generation 2 after" in agent.output
    assert "rank 1, where it hangs:" in agent.output
    assert "in waits_for_a_lock_that_nobody_opens" in agent.output


STARTS = """
import os, socket, sys, time
sys.path.insert(0, sys.argv[1])
from windlass import wire
rank, generation = int(os.environ["RANK"]), int(os.environ["WINDLASS_GENERATION"])
if rank == 0:
    agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    agent.connect(os.environ[wire.AGENT_SOCKET])
    agent.send(wire.encode(wire.Heartbeat(rank, generation, 0, "join", 0)))
def read_a_filesystem_that_does_not_answer():
    time.sleep(1000)
if generation == 1:
    read_a_filesystem_that_does_not_answer()
"""


def test_a_rank_that_hangs_before_its_first_heartbeat_is_named_with_its_stacks(bare):
    words = ["--nproc-per-node=2", "--max-restarts=1", "--hang=start=1", "SCRIPT", str(Path(wire.__file__).parents[1])]
    agent = bare(*words, script=STARTS)
    assert agent.ends() == 0
    assert "hang: rank 1 has started and sends no heartbeats for" in agent.output
    assert "rank 0 is in join of step 0; generation 2 after" in agent.output
    assert "in read_a_filesystem_that_does_not_answer" in agent.output


def test_ranks_that_never_send_heartbeats_have_no_limit(bare):
    agent = bare("--nproc-per-node=2", "--hang=start=0.1", "SCRIPT", script="import time\ntime.sleep(2.5)")
    assert agent.ends() == 0
    assert "hang" not in agent.output


def test_missing_output_can_be_a_hang_without_heartbeats(bare):
    agent = bare("--hang=silence=0.5", "SCRIPT", script=WAITS)
    assert agent.ends() == 1
    assert "hang: no rank has printed anything for" in agent.output


# --- packed ---------------------------------------------------------------------------------------------


def test_packed_into_one_file_it_needs_nothing_but_python(bare, tmp_path):
    pack.pack(str(tmp_path / "agent.pyz"))
    names = zipfile.ZipFile(tmp_path / "agent.pyz").namelist()
    assert {name.split("/")[1] for name in names if name.startswith("windlass/")} - {""} == {
        "__init__.py", "wire.py", "agent",
    }  # fmt: skip
    program = [sys.executable, "-S", "-E", "-s", "agent.pyz"]
    agent = bare("--nproc-per-node=2", "--max-restarts=1", "SCRIPT", script=WAITS, program=program, PYTHONPATH="no")
    os.kill(agent.pid_of(1), signal.SIGKILL)
    assert agent.ends() == 0
    assert agent.output.count("generation 2 pid") == 2
    again = bare("pack", "--to", "copy.pyz", program=program)
    assert again.ends() == 0
    assert (tmp_path / "copy.pyz").read_bytes() == (tmp_path / "agent.pyz").read_bytes()


@pytest.mark.parametrize("line", [["--nnodes", "0", "x.py"], ["--nproc-per-node", "many", "x.py"]])
def test_a_wrong_option_is_refused_in_one_line(bare, line):
    agent = bare(*line)
    assert agent.ends() == 2
    assert "windlass agent: --n" in agent.output
    assert "Traceback" not in agent.output

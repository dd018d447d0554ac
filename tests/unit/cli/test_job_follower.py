"""Following a job: printed lines, Ctrl-C, lost controllers, and the exit code."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from windlass.backends.local.logs import LogFile, LogLine
from windlass.backends.local.paths import StatePaths
from windlass.cli import job_messages
from windlass.cli.job_follower import JobFollower, LocalTarget
from windlass.cli.queue_limit import QueueLimit, QueueTimeoutError
from windlass.cli.terminal import formatting
from windlass.cli.terminal.screen import Screen
from windlass.core.model.job import Job, Role
from windlass.jobs.description.submission import Submission
from windlass.server import views
from windlass.server.cluster_options import ClusterOptions
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.job_lines import NOT_PENDING

NOW = 1_700_000_000_000
HANDED = [Submission(Job("digits", (Role(command=("true",)),)))]
PLACED = {"created_at": NOW, "tasks": [], "rank_resources": [], "attempts": 1, "nodes": ["n1"]}
GONE = ApiError(ErrorCode.GONE, "the daemon went away")


class Connection:
    """A controller that answers each poll with the next of `looks`: events, or an error."""

    succeeded = False

    def __init__(self, *looks: list | ApiError, kind: str = "up", story: dict | None = None) -> None:
        self.kind = kind
        self.looks = list(looks)
        self.messages: list[tuple] = []
        self.after = 0
        self.ids = ["digits-1"]
        self._story = story

    def submit(self, handed, **facts):
        assert handed == HANDED
        self.messages.append(("submit", facts["key"], facts["again"], bool(facts["owner"])))
        if self.looks and self.looks[0] == "lost":
            self.looks.pop(0)
            raise GONE
        return self.ids

    def follow(self, names, after=0):
        self.messages.append(("follow", names, after))
        return self

    def poll(self, _timeout):
        look = self.looks.pop(0)
        if isinstance(look, ApiError):
            raise look
        if callable(look):
            look = look()
        self.after = max([self.after, *(event.get("number", 0) for event in look)])
        return look

    def job(self, _name):
        if self._story is None:
            raise GONE
        return self._story

    def act(self, verb, name, **how):
        self.messages.append((verb, name, how["now"]))
        return {"jobs": []}

    def close(self):
        self.messages.append(("close",))


def end(job: dict) -> list[dict]:
    return [{"type": "end", "job": job}, {"type": "all ended"}]


@pytest.fixture
def attend(tmp_path, capsys, monkeypatch):
    """`attend(connection, …)` returns (exit code, stderr); each lost connection is followed by the next."""

    def follow(*connections, interrupts=None, **how):
        reached = iter(connections)
        monkeypatch.setattr("windlass.cli.job_follower.find_or_start", lambda *_words, **_more: next(reached))
        attendance = JobFollower(LocalTarget(tmp_path, ClusterOptions()), Screen(no_color=True), **how)
        with closing(attendance):
            attendance.submit(HANDED)
            code = attendance.follow(interrupts or SimpleNamespace(count=0, names=[]))
        return code, capsys.readouterr().err

    return follow


def transition(number: int, before: str, after: str, message: str = "") -> dict:
    fields = {"job_id": "digits-1", "at": NOW + 40, "before": before, "after": after, "message": message}
    return {"type": "transition", "number": number, **fields}


def test_a_job_is_reported_from_the_queue_to_its_end(attend, made):
    waits = made.line(made.queued(), position=2, reason="WaitingForQuota", message="needs 2 gpu")
    tasks = [{"generation": 1, "rank": rank, "node": f"n{rank}"} for rank in (1, 2)]
    story = {"created_at": NOW, "tasks": tasks, "rank_resources": ["2 CPU slots stand in for GPUs"]}
    events = [
        [{"type": "verdict", "job": waits}],
        [{"type": "verdict", "job": waits}],
        [transition(5, "Queued", "Admitted")],
        [transition(6, "Running", "Restarting", "NodeLost: n1 went away")],
        end(made.line(made.failed(code=41))),
    ]
    code, output = attend(Connection(*events, story=story))
    assert code == 41
    assert output.splitlines()[:-1] == [
        "job digits-1 waits (position 2): needs 2 gpu",
        "job digits-1 admitted in 40 ms on n1,n2 (generation 1)",
        "  2 CPU slots stand in for GPUs",
        "job digits-1: generation 1 failed: NodeLost: n1 went away; restarting the whole gang",
        f"job digits-1 failed (ExitCode: {made.failed(code=41).status.message}): waited 1.0 s, ran 1m04s, 1 attempt",
    ]


def test_a_job_that_waits_for_too_long_is_cancelled_and_the_wait_explained(attend, made, capsys):
    waits = made.line(made.queued(), position=2, reason="WaitingForQuota", message="needs 2 gpu")
    moments = iter([0, 10, 61])
    limit = QueueLimit(60_000, lambda answer: answer["text"], "wait longer", lambda: next(moments))
    connection = Connection([{"type": "verdict", "job": waits}], [{"type": "verdict", "job": waits}])
    connection.explain = lambda name: {"text": f"{name} waits for n1"}
    with pytest.raises(QueueTimeoutError, match="digits-1 got no nodes within 1m00s and is cancelled: needs 2 gpu"):
        attend(connection, queue_limit=limit)
    assert ("cancel", "digits-1", False) in connection.messages
    assert capsys.readouterr().err.splitlines() == [
        f"{waits['id']} waits for n1",
        f"job {waits['id']} waits (position 2): needs 2 gpu",
    ]


def test_a_start_is_reported_although_the_daemon_is_lost_meanwhile(attend, made, monkeypatch):
    first = Connection([transition(5, "Queued", "Admitted")])
    second = Connection([], end(made.line(made.failed(code=41))), story=PLACED)
    monkeypatch.setattr("windlass.cli.job_follower.find_controller", lambda _root: second)
    code, output = attend(first)
    assert code == 41
    assert "job digits-1 admitted in 40 ms on n1 (generation 1)" in output
    assert ("follow", "digits-1", 5) in second.messages


def test_ctrl_c_detaches_from_a_job_of_a_daemon(attend):
    pressed = SimpleNamespace(count=1, names=["Ctrl-C"])
    connection = Connection([])
    code, output = attend(connection, interrupts=pressed)
    assert code == 130
    assert output.startswith("detached from digits-1, which keeps running")
    assert not [each for each in connection.messages if each[0] == "cancel"]


def test_ctrl_c_cancels_a_job_of_a_daemon_that_is_always_cancelled(attend, made):
    pressed = SimpleNamespace(count=1, names=["SIGTERM"])
    connection = Connection([], end(made.line(made.failed(reason="Cancelled"))))
    code, output = attend(connection, interrupts=pressed, always_cancels=True)
    assert code == 130
    assert output.startswith("SIGTERM: cancelling digits-1; repeat to kill it at once")
    assert ("cancel", "digits-1", False) in connection.messages


def test_ctrl_c_cancels_without_a_daemon_and_a_second_one_kills(attend, made):
    pressed = SimpleNamespace(count=1, names=["Ctrl-C"])

    def again():
        pressed.count += 1
        return []

    cancelled = made.line(made.failed(reason="Cancelled"))
    connection = Connection([], again, end(cancelled), kind="run")
    code, output = attend(connection, interrupts=pressed)
    assert code == 130
    assert [each for each in connection.messages if each[0] == "cancel"] == [
        ("cancel", "digits-1", False),
        ("cancel", "digits-1", True),
    ]
    assert "Ctrl-C: cancelling digits-1; repeat to kill it at once" in output
    assert connection.messages[0][3]  # the job must not outlive us


def test_a_request_whose_answer_was_lost_is_repeated_with_its_key(attend, made):
    first, second = Connection("lost"), Connection(end(made.line(made.succeeded())))
    assert attend(first, second)[0] == 0
    (_, key, again, owned), (_, same, now_again, _) = first.messages[0], second.messages[0]
    assert (key, again, now_again, owned) == (same, False, True, False)


def test_the_next_controller_is_followed_from_the_last_event(attend, made):
    first = Connection([transition(8, "Running", "Suspended", "by ada")], GONE, kind="run")
    second = Connection(end(made.line(made.succeeded())))
    assert attend(first, second)[0] == 0
    assert second.messages[0] == ("follow", "digits-1", 8)


# --- messages ----------------------------------------------------------------------------------------


def test_an_admission_line_names_known_nodes_once():
    assert (
        job_messages.admission_line("a-1", 1, 40, ["n1", "n2", "n1"])
        == "job a-1 admitted in 40 ms on n1,n2 (generation 1)"
    )
    assert job_messages.admission_line("a-1", 1, 40, ["", ""]) == "job a-1 admitted in 40 ms (generation 1)"
    assert job_messages.admission_line("a-1", 2, 0, []) == "job a-1 restarted (generation 2)"


def test_a_start_with_unbound_pods_is_reported_with_the_nodes_of_the_job(attend, made):
    unbound = [{"generation": 1, "rank": rank, "node": ""} for rank in (1, 2)]
    story = {**made.line(made.running(created_at=NOW)), "tasks": unbound, "rank_resources": []}
    events = [[transition(1, "Queued", "Admitted")], end(made.line(made.succeeded()))]
    assert "admitted in 40 ms on n1,n2 (generation 1)" in attend(Connection(*events, story=story))[1]


def test_the_exit_code_of_a_run_is_that_of_the_first_failed_job(made):
    good, bad, killed = made.line(made.succeeded()), made.line(made.failed(code=7)), made.line(made.failed(code=9))
    assert job_messages.exit_code_of([good]) == job_messages.exit_code_of([]) == 0
    assert job_messages.exit_code_of([good, bad, killed]) == 7
    assert job_messages.exit_code_of([made.line(made.failed(code=None, reason="NodeLost"))]) == 1
    assert job_messages.exit_code_of([made.line(made.failed(reason="Misconfigured"))]) == 3
    assert job_messages.exit_code_of([made.line(made.failed(reason="Cancelled"))]) == 130


@pytest.mark.parametrize("namespace", ["", "team/"], ids=["machine", "cluster"])
def test_the_first_failure_is_that_of_the_job_that_was_submitted_first(attend, made, namespace):
    """Whichever ends first: `digits` is an array of twelve, and the job after it has a lower number."""
    of_array = {"array": "digits"}
    ends = [
        made.line(made.failed(1, code=3), id=f"{namespace}later"),
        made.line(made.failed(2, code=11), id=f"{namespace}digits_11", index=11, **of_array),
        made.line(made.failed(3, code=9), id=f"{namespace}digits_9", index=9, **of_array),
        made.line(made.succeeded(4), id=f"{namespace}digits_0", index=0, **of_array),
    ]
    connection = Connection([*({"type": "end", "job": job} for job in ends), {"type": "all ended"}], story={})
    connection.ids = [f"{namespace}digits", f"{namespace}later"]
    code, output = attend(connection)
    assert code == 9
    printed = re.findall(r"^job (\S+) (?:failed|succeeded)", output, re.MULTILINE)
    assert printed == [f"{namespace}{job_id}" for job_id in ("digits_0", "digits_9", "digits_11", "later")]


def test_a_failure_without_a_verdict_names_the_command_that_has_it_later(attend, made):
    """The user interrupts the wait for the verdict."""
    connection = Connection(end(made.line(made.failed(failed_generation=1))), story={"awaits_diagnosis": True})
    code, output = attend(connection, interrupts=SimpleNamespace(count=1, names=["SIGINT"]))
    assert code == 3
    assert "no verdict yet: windlass doctor digits-1" in output.splitlines()


def test_the_verdict_on_a_failure_is_awaited(attend, made):
    cause = {"text": "the disk is full", "certainty": "proven", "rule": "disk-full"}
    story = {"awaits_diagnosis": False, "diagnosis": cause}
    _, output = attend(Connection(end(made.line(made.failed(failed_generation=1))), story=story))
    assert output.splitlines()[-2] == "verdict: the disk is full (proven, disk-full)"


def test_the_end_of_a_job_that_never_ran(made):
    never = made.line(made.queued(), phase="Failed", reason="Cancelled", finished_at=NOW + 2_000, attempts=0)
    assert job_messages.end_lines(never, "/logs") == ["job digits-1 cancelled: waited 2.0 s, never ran, 0 attempts"]
    assert job_messages.end_lines(made.line(made.succeeded()), "/logs")[1] == "logs: /logs  (windlass logs digits-1)"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (None, "-"),
        (-5, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (59_949, "59.9 s"),
        (59_999, "59.9 s"),
        (60_000, "1m00s"),
        (3_599_999, "59m59s"),
        (3_600_000, "1h00m"),
        (86_400_000 * 5 + 3_600_000 * 3, "5d03h"),
    ],
)
def test_durations(milliseconds, text):
    assert formatting.format_duration(milliseconds) == text


def test_amounts():
    assert (
        formatting.format_resources({"cpu": 1_500, "memory": 3 << 29, "gpu": 2, "nic": 0})
        == "1500m cpu, 1.5Gi memory, 2 gpu"
    )
    assert (
        formatting.pluralize(1, "reply", "replies") + formatting.pluralize(2, "reply", "replies") == "1 reply2 replies"
    )
    assert formatting.shorten(["a", "b", "c"], 2) == "a,b and 1 more"


# --- the screen ---------------------------------------------------------------------------------------


def said_by(rank: int, text: str, stream: str = "out") -> LogLine:
    return LogLine(LogFile("digits-1", 1, rank, stream, Path("x")), NOW, text)


def test_ranks_keep_their_streams(capsys):
    screen = Screen(no_color=False)
    screen.rank(said_by(0, "größe"), {(1, 0): "n1"})
    screen.rank(said_by(1, "oh", "err"), {}, "digits-1")
    screen.bare(said_by(2, "plain"))
    screen.close()
    assert capsys.readouterr() == ("[r0 n1] größe\nplain\n", "[digits-1 r1] oh\n")


def test_the_status_line_on_a_terminal_is_replaced_and_cleared(capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    screen = Screen(no_color=False)
    screen.state("waits " * 50)
    screen.state("waits " * 50)
    screen.rank(said_by(0, "go"), {(1, 0): "n1"})
    out, err = capsys.readouterr()
    assert out == "\x1b[36m[r0 n1]\x1b[0m go\n"
    assert err.count("waits waits") > 1
    assert err.endswith("…\r\x1b[K")
    assert len(err) < 120


def test_a_closed_terminal_ends_nothing(capsys, monkeypatch):
    def gone(_text: str) -> None:
        raise OSError(5, "Input/output error")

    screen = Screen(no_color=True)
    monkeypatch.setattr("sys.stderr.write", gone)
    screen.say("hello")
    screen.rank(said_by(0, "still here"), {})
    assert capsys.readouterr().out == "[r0] still here\n"


# --- logs ---------------------------------------------------------------------------------------------


@pytest.fixture
def printed(daemon, tmp_path, made):
    """Two attempts of two ranks on record."""
    paths = StatePaths(tmp_path / "state")
    for generation in (1, 2):
        folder = paths.generation_logs("digits-1", generation)
        folder.mkdir(parents=True)
        for rank in (0, 1):
            (folder / f"{rank}.out").write_text(f"größe {generation}\nloss {rank}\nlast")
            (folder / f"{rank}.err").write_text("warned\n")
    tasks = [{"generation": 2, "rank": rank, "node": "n1"} for rank in (0, 1)]
    daemon.says["/v1/jobs/digits"] = daemon.says["/v1/jobs/digits-1"] = made.line(made.running()) | {"tasks": tasks}
    return daemon


@pytest.mark.parametrize(
    ("options", "out"),
    [
        (("--rank", "1"), ["[r1 n1] größe 2", "[r1 n1] loss 1", "[r1 n1] last"]),
        (("--rank", "0", "--attempt", "1"), ["[r0] größe 1", "[r0] loss 0", "[r0] last"]),
        (("--attempt", "all", "--bare", "--grep", "^gr"), ["größe 1", "größe 1", "größe 2", "größe 2"]),
        (("--rank", "0", "--tail", "2", "--stdout", "--bare"), ["loss 0", "last"]),
        (("--stderr",), []),
        (("--rank", "1-9", "--stdout", "--tail", "1"), ["[r1 n1] last"]),
        (("--tail", "0"), []),
    ],
)
def test_lines_by_rank_attempt_stream_and_pattern(printed, windlass, options, out):
    ran = windlass("logs", "digits", *options)
    assert (ran.code, ran.out.splitlines()) == (0, out)


def _details(state):
    return views.job_details(state, NOT_PENDING, (), ())


@pytest.mark.parametrize(("rank", "missing"), [("9", "rank 9"), ("7-9", "ranks 7-9")])
def test_a_rank_that_the_job_does_not_have_is_an_error_that_names_its_ranks(printed, windlass, rank, missing):
    ran = windlass("logs", "digits", "--rank", rank)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"windlass: digits has no {missing}\nits ranks are 0-1\n"


def test_the_output_of_a_later_rank_of_a_waiting_job_may_be_followed(daemon, windlass, made):
    daemon.says["/v1/jobs/digits"] = daemon.says["/v1/jobs/digits-1"] = _details(made.queued())
    assert windlass("logs", "digits", "--rank", "3").err == "digits has printed nothing that matches\n"
    assert windlass("logs", "digits", "--rank", "4").err == "windlass: digits has no rank 4\nits ranks are 0-3\n"


@pytest.mark.parametrize(
    ("is_ended", "words", "text"),
    [
        (False, (), "digits has printed nothing yet"),
        (True, (), "digits printed nothing"),
        (True, ("--grep", "x"), "digits printed nothing that matches"),
    ],
)
def test_a_job_without_output_is_said_to_have_none_or_none_yet(daemon, windlass, made, is_ended, words, text):
    daemon.says["/v1/jobs/digits"] = _details(made.succeeded() if is_ended else made.running())
    assert windlass("logs", "digits", *words).err == f"{text}\n"


def test_an_attempt_without_output_is_an_error(printed, windlass):
    ran = windlass("logs", "digits", "--attempt", "3")
    assert (ran.code, ran.err) == (2, "windlass: digits-1 has no output of attempt 3\nthere are: 1, 2\n")

import errno

import pytest

from windlass.backends.local.exit_reports import RankCommand, RankName, exit_of, signal_name
from windlass.core.lifecycle.failure import classify_exit
from windlass.core.model.job import RestartPolicy

RANK = RankName(3, "worker", 1, "n2")
COMMAND = RankCommand(("python", "train.py"), "/work dir")


@pytest.mark.parametrize(
    ("report", "detail"),
    [
        ({"code": 1}, "rank 3 (worker/1) on n2 exited with code 1"),
        ({"code": 137}, "rank 3 (worker/1) on n2 exited with code 137 (SIGKILL, according to its shell)"),
        ({"code": 255}, "rank 3 (worker/1) on n2 exited with code 255"),
        ({"signal": 11}, "rank 3 (worker/1) on n2 killed by SIGSEGV"),
        (
            {"code": 127, "error": [errno.ENOENT, "exec"]},
            "rank 3 (worker/1) on n2: command not found: 'python' in PATH",
        ),
        (
            {"code": 126, "error": [errno.ENOEXEC, "exec"]},
            "rank 3 (worker/1) on n2: cannot run 'python': it is no program, and no script that begins with #!",
        ),
        (
            {"code": 126, "error": [errno.E2BIG, "exec"]},
            "rank 3 (worker/1) on n2: cannot run 'python': its arguments and environment are too long",
        ),
        (
            {"code": 126, "error": [errno.EACCES, "chdir"]},
            (
                "rank 3 (worker/1) on n2: working directory '/work dir' may not be entered; "
                "name another one with --workdir"
            ),
        ),
        (
            {"code": 126, "error": [errno.EAGAIN, "fork"]},
            "rank 3 (worker/1) on n2: could not be started: Resource temporarily unavailable",
        ),
    ],
)
def test_an_end_is_described_with_rank_node_and_cause(report, detail):
    exit = exit_of(RANK, report, COMMAND)
    assert exit.detail == detail
    assert (exit.code, exit.signal) == (report.get("code"), report.get("signal"))


@pytest.mark.parametrize(
    ("code", "reason"), [(1, "ExitCode"), (83, "Preempted"), (84, "AskedForRetry"), (85, "AskedForNoRetry")]
)
def test_agreed_exit_codes_are_classified_by_the_common_table(code, reason):
    assert classify_exit(exit_of(RANK, {"code": code}, COMMAND), RestartPolicy()).reason == reason


def test_a_signal_without_a_name_has_its_number():
    assert (signal_name(9), signal_name(99)) == ("SIGKILL", "signal 99")

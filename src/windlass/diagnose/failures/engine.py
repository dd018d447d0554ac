"""Diagnoses one failed job: from logs to facts, from facts to the root cause."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from windlass.diagnose.diagnosis import Diagnosis, EvidenceLine
from windlass.diagnose.failures.candidate_order import rank_candidates
from windlass.diagnose.failures.candidates import find_candidates, is_last_line
from windlass.diagnose.failures.clock_offsets import aligned_facts
from windlass.diagnose.failures.collective_names import with_collectives
from windlass.diagnose.failures.evidence import Evidence, Fact, LogSource
from windlass.diagnose.failures.failure_rules import FailureRule, load_rules
from windlass.diagnose.failures.log_scan import LogFindings
from windlass.diagnose.failures.parallel_scan import scan_logs
from windlass.diagnose.failures.process_ranks import identify_processes
from windlass.diagnose.failures.rank_comparison import compare_ranks
from windlass.diagnose.failures.source_labels import label_source
from windlass.diagnose.failures.verdict import build_verdict

_SILENT = "launcher-without-output"
"""Rule of logs without a line of a rank."""
_OF_LAUNCHER = re.compile(
    r"torch/distributed/run\.py:\d+\]|^WARNING:(?:torch\.distributed\.run|__main__):|^\s*\*{10,}\s*$"
    r"|^\s*Setting OMP_NUM_THREADS environment variable for each process to be"
)
"""Lines that torchrun prints before it starts ranks."""
_MOST_LINES_OF_LAUNCHER = 20


def diagnose(
    evidence: Evidence, *, show_secrets: bool = False, report_bytes: Callable[[int], object] = int
) -> Diagnosis:
    """The root cause of a failed job, or none where nothing points to a failure.

    `report_bytes` is called with the number of bytes of each block that was read, in any thread.
    """
    # 1. Read all logs of the latest attempt, and find the lines that fire a rule.
    rules = load_rules()
    logs = scan_logs(latest_attempt(evidence.logs), report_bytes)
    # 2. Put the facts of all logs on one clock, add those of other analyses, and tell of which ranks they are.
    silent = _silent_launcher(logs)
    more = [*evidence.facts, *(silent if evidence.has_failed else ())]
    known = [*aligned_facts(logs), *((fact, 0) for fact in more if fact.rule in rules)]
    facts = with_collectives(identify_processes(known))
    # 3. Keep the rules whose conditions hold, and order them: causes before what follows from them.
    ranked = rank_candidates(find_candidates(facts, rules, logs, has_failed=evidence.has_failed))
    # 4. Find the rank that the others waited for, ranks that wait for different things, and ranks that never started.
    comparison = compare_ranks([fact for fact, _ in facts], logs, evidence.expected_ranks)
    # 5. Describe the best candidate, and name what the evidence lacks.
    if not ranked:
        return Diagnosis(None, _unseen(logs, evidence), [*_silent_ends(logs, rules, silent)])
    verdict = build_verdict(ranked, comparison, show_secrets=show_secrets)
    return Diagnosis(verdict, _unseen(logs, evidence))


def latest_attempt(sources: Sequence[LogSource]) -> list[LogSource]:
    """The sources of the latest attempt, and those that belong to none."""
    attempts = [label_source(source).attempt for source in sources]
    latest = max((attempt for attempt in attempts if attempt is not None), default=None)
    return [source for source, attempt in zip(sources, attempts, strict=True) if attempt in (None, latest)]


def _silent_launcher(logs: Sequence[LogFindings]) -> list[Fact]:
    """The fact that no log has a line of a rank: all are empty, or have only what the launcher prints first."""
    if not logs or not all(_is_of_launcher(log) for log in logs):
        return []
    first = next((log for log in logs if log.lines), logs[0])
    what = "have lines of the launcher alone" if first.lines else "are empty"
    return [Fact(_SILENT, EvidenceLine(first.source.name, first.last_line, f"no line of any rank: the logs {what}"))]


def _is_of_launcher(log: LogFindings) -> bool:
    """Whether a log that was read whole has no other lines than those of the launcher."""
    is_short = log.lines <= _MOST_LINES_OF_LAUNCHER and not _gaps(log)
    return is_short and all(_OF_LAUNCHER.search(line) for line in log.tail if line.strip())


def _silent_ends(
    logs: Sequence[LogFindings], rules: Mapping[str, FailureRule], silent: Sequence[Fact]
) -> Iterator[str]:
    """Yields a note for each place where the logs of a job that starts and of one that hangs end alike."""
    for fact in silent:
        yield f"{fact.evidence.source}: {fact.evidence.text}. If the launcher stands still, or has failed, add --failed"
    for log in logs:
        if any(rule.at_end and is_last_line(rule.id, log) for rule in rules.values()):
            name = log.source.name
            yield f"{name} ends in the set-up of NCCL. If the job stands still there, or has failed, add --failed"


def _gaps(log: LogFindings) -> list[str]:
    return log.gaps.sentences(log.source.name)


def _unseen(logs: Sequence[LogFindings], evidence: Evidence) -> list[str]:
    seen = {rank for log in logs for rank in log.ranks}
    missing = [rank for rank in range(evidence.expected_ranks or 0) if rank not in seen]
    gaps = [sentence for log in logs for sentence in _gaps(log)]
    empty = [f"{log.source.name}: empty" for log in logs if not log.lines and not _gaps(log)]
    if missing:
        shown = ", ".join(map(str, missing[:8])) + (", …" if len(missing) > 8 else "")
        gaps.append(f"no line of {len(missing)} of {evidence.expected_ranks} ranks: {shown}")
    return gaps + empty

"""Check of J1: the results that the mended jobs printed, and the answers beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from windlass.labs.evidence.findings import Finding
from windlass.labs.evidence.lab import Lab


@dataclass(frozen=True, slots=True)
class BrokenJob:
    """A job: what it prints once it is mended, its answer, and the evidence for that answer."""

    name: str
    result: re.Pattern[str]
    answer: str
    evidence: str
    mend: str


JOBS = (
    BrokenJob(
        "timeout",
        re.compile(r"timeout: accuracies add up to 271\.5$"),
        "a",
        "compare the last frames of both ranks: one waits in evaluate, the other in barrier",
        "all ranks have to call evaluate(); rank 0 alone prints",
    ),
    BrokenJob(
        "mismatch",
        re.compile(r"mismatch: a table of 14 words, the gradients add up to 42\.0$"),
        "d",
        "rank 1 prints the sizes of its first parameter, and they are not those of rank 0",
        "make the list of words of the whole text, not of the part of a rank",
    ),
    BrokenJob(
        "memory",
        re.compile(r"memory: 4096 samples in the step, the norm of the gradients is 1\.32[5-9]$"),
        "f",
        "the traceback ends in backward, in the first step: nothing had time to grow",
        "accumulate gradients over parts of the batch, with loss * len(part) / BATCH; a step keeps its 4096 samples",
    ),
    BrokenJob(
        "device",
        re.compile(r"device: the products of all ranks add up to 2048\.0$"),
        "h",
        "the message says that there is no driver, and windlass doctor host that there is no GPU",
        'use "cuda" where torch.cuda.is_available(), else "cpu"',
    ),
    BrokenJob(
        "interface",
        re.compile(r"interface: the ranks add up to 3\.0$"),
        "j",
        "the message names an interface; compare it with: ls /sys/class/net",
        "remove GLOO_SOCKET_IFNAME, or name an interface of this machine",
    ),
)


def check(lab: Lab) -> Iterator[Finding]:
    """Looks at each job in the order of the text: first the mended one, then the answer."""
    answers = _answers(lab.file("answers.txt") or "")
    jobs = [job for job in lab.jobs() if job.succeeded and job.ranks == 2]
    for broken in JOBS:
        given = answers.get(broken.name, "")
        yield Finding(
            given == broken.answer,
            f"{broken.name}: the answer fits the evidence",
            (
                f"{given} does not fit: {broken.evidence}"
                if given
                else f"write its letter into answers.txt: {broken.evidence}"
            ),
        )
        done = any(broken.result.search(line) for job in jobs for line in lab.logs(job.id, rank=0))
        yield Finding(
            done,
            f"{broken.name}: the mended job printed the right result",
            f"{broken.mend}. Then run: windlass run --local-gpus 2 -G 2 --name mended -- python {broken.name}.py",
        )


def _answers(text: str) -> dict[str, str]:
    """Returns the letter of each job."""
    pairs = (line.partition(":") for line in text.splitlines() if not line.startswith("#"))
    return {name.strip(): letter.strip().lower() for name, colon, letter in pairs if colon}

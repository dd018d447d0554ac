"""Accuracy of `windlass doctor` on the blind set: counts by category, with the text as it is or changed.

`python tools/diagnosis_accuracy.py tuning` prints the counts and every miss of the half that rules are tuned on;
`kept` prints the counts of the half kept aside, and the ids of its misses with `--name-misses`.
"""

import argparse
import hashlib
import io
import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from windlass.diagnose.diagnosis import Certainty, Diagnosis
from windlass.diagnose.failures.engine import diagnose
from windlass.diagnose.failures.evidence import Evidence, LogSource

BLIND = Path(__file__).parents[1] / "tests/diagnosis/blind"


@dataclass(frozen=True)
class Result:
    """One case with its outcome."""

    id: str
    category: str
    wanted: frozenset[str]
    outcome: Diagnosis

    @property
    def is_right(self) -> bool:
        """A healthy case has no verdict; another has a verdict of one of its causes first."""
        verdict = self.outcome.verdict
        return (verdict.cause in self.wanted) if verdict else "healthy" in self.wanted

    @property
    def is_confidently_wrong(self) -> bool:
        """Whether a wrong verdict is called certain."""
        verdict = self.outcome.verdict
        return not self.is_right and verdict is not None and verdict.certainty is Certainty.CERTAIN


def half_of(identity: str) -> str:
    return "kept" if int(hashlib.sha256(identity.encode()).hexdigest()[0], 16) % 2 == 0 else "tuning"


def cases(half: str) -> Iterator[dict[str, Any]]:
    """The cases of one half. Files of the other half are not opened."""
    for path in sorted(BLIND.glob("*/*.yaml")):
        if half_of(path.stem) == half:
            yield yaml.safe_load(path.read_text(encoding="utf-8"))


def results(half: str, change: Callable[[str], str] = str) -> list[Result]:
    return [judged(case, change) for case in cases(half)]


def judged(case: dict[str, Any], change: Callable[[str], str]) -> Result:
    logs = [LogSource(log["name"], partial(io.BytesIO, change(log["text"]).encode())) for log in case["logs"]]
    return Result(
        case["id"], case["category"], frozenset([case["cause"], *case["also_right"]]), diagnose(Evidence(logs))
    )


def changed(text: str) -> str:
    """The text as another version, machine or launcher would print it: numbers, places, addresses, quotes, prefixes."""
    choose = random.Random(hashlib.sha256(text.encode()).digest())  # noqa: S311 - the same change each time
    lines = [changed_line(line, choose) for line in text.split("\n")]
    prefix = choose.choice(["", "[rank1]: ", "[1,1]<stderr>:", "1: ", "(RayTrainWorker pid=812, ip=10.9.8.7) "])
    return "\n".join(prefix + line for line in lines)


def changed_line(line: str, choose: random.Random) -> str:
    line = re.sub(r"(\w\.(?:py|cc|cpp|cu|go|c|h)):\d+", lambda found: f"{found[1]}:{choose.randrange(10, 3000)}", line)
    line = re.sub(r"\bline \d+", f"line {choose.randrange(10, 3000)}", line)
    line = re.sub(
        r"\b\d{1,3}(?:\.\d{1,3}){3}\b", lambda _: f"10.{choose.randrange(250)}.7.{choose.randrange(250)}", line
    )
    line = re.sub(r"\b(\d+)\.(\d+)\.(\d+)\b(?!\.)", lambda found: f"{found[1]}.{int(found[2]) + 1}.0", line)
    line = re.sub(r"/(?:home|root|usr|opt|workspace|mnt|data)/[\w./-]*/", "/srv/env/lib/", line)
    line = re.sub(r"\b0x[0-9a-f]{6,}", "0x7fc012abcd00", line)
    line = re.sub(r"\b(pid[= (]*|PID )\d+", lambda found: f"{found[1]}{choose.randrange(100, 90000)}", line)
    return re.sub(r'^(\w*(?:Error|Exception): .*?)"([^"]*)"', r"\1'\2'", line)


def wrapped(text: str, width: int) -> str:
    """The text as it is copied from a terminal of this width: longer lines go on in the next one."""
    lines = (line[start : start + width] for line in text.split("\n") for start in range(0, len(line) or 1, width))
    return "\n".join(lines)


def table(found: list[Result]) -> list[tuple[str, int, int, int]]:
    """Rows of category, cases, right and confidently wrong, with a last row of all."""
    groups: dict[str, list[Result]] = defaultdict(list)
    for each in found:
        groups[each.category].append(each)
    rows = [(name, *counts(group)) for name, group in sorted(groups.items())]
    return [*rows, ("all", *counts(found))]


def counts(found: list[Result]) -> tuple[int, int, int]:
    return len(found), sum(each.is_right for each in found), sum(each.is_confidently_wrong for each in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("half", choices=["tuning", "kept"])
    parser.add_argument("--changed", action="store_true", help="as another version, machine or launcher would print it")
    parser.add_argument("--name-misses", action="store_true", help="with kept: also print the ids of misses")
    parser.add_argument("--wrapped", type=int, metavar="COLUMNS", help="as copied from a terminal of this width")
    options = parser.parse_args()
    change = changed if options.changed else str
    if options.wrapped:
        change = partial(wrapped, width=options.wrapped)
    found = results(options.half, change)
    for name, cases, right, wrong in table(found):
        print(f"{name:12} {cases:4} cases {right:4} right {100 * right / cases:5.1f} %  {wrong} confidently wrong")
    for miss in (each for each in found if not each.is_right):
        if options.half == "tuning":
            print(json.dumps(description(miss)))
        elif options.name_misses:
            print(miss.id)


def description(miss: Result) -> dict[str, Any]:
    verdict = miss.outcome.verdict
    shown = (verdict.rule, verdict.cause, verdict.certainty, verdict.evidence[0].text[:160]) if verdict else None
    return {"id": miss.id, "wanted": sorted(miss.wanted), "verdict": shown}


if __name__ == "__main__":
    main()

"""Names: patterns of valid names, the name of a job from its command, suggestions for mistyped words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

MAX_NAME = 48
"""A DNS label has 63 characters; 15 are for "-1234567_123456", a job's number and an array's index."""

JOB_NAME = rf"[a-z]([-a-z0-9]{{0,{MAX_NAME - 2}}}[a-z0-9])?"
"""A DNS-1035 label with room for a suffix: services are named by it on Kubernetes."""
NODE_NAME = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
"""A DNS-1123 subdomain: nodes and queues."""
QUEUE_NAME = r"[A-Za-z0-9]([-A-Za-z0-9._]{0,251}[A-Za-z0-9])?"
"""A queue that a job names: one of Windlass, whose names are subdomains, or a partition of Slurm."""
JOB_REFERENCE = r"[a-z][-a-z0-9]{0,62}(_[0-9]{1,6})?"
"""A job's name or its id: "prep", "prep-7", "prep-7_3"."""

VARIABLE = r"[ -<>-~]{1,255}"
"""Printable ASCII without "=": Kubernetes' rule for names of variables."""
IMAGE = r"[A-Za-z0-9][-A-Za-z0-9._/:@]{0,511}"
"""A reference to a container image; its registry decides whether the image exists."""
LABEL = r"[A-Za-z0-9]([-A-Za-z0-9_./]{0,251}[A-Za-z0-9])?"
"""A qualified name of Kubernetes, a little wider."""
LABEL_VALUE = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
"""A label's value by Kubernetes' rule; not empty."""

MAX_DNS_LABEL = 63
DNS_LABEL = r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?"
"""RFC 1035: the name of a service."""
_QUALIFIED = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
KUBERNETES_LABEL = rf"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_QUALIFIED}"
KUBERNETES_LABEL_VALUE = rf"({_QUALIFIED})?"


_LETTERS, _SHORT = 2, 5
"""`close_name`: letters in which a name may differ, and letters of a short word."""


def is_name(pattern: str, text: str) -> bool:
    """Tells whether the whole text is a name of this pattern."""
    return re.fullmatch(pattern, text) is not None


def valid_name(text: str) -> str:
    """The nearest valid job name; "job" if nothing of the text can be kept."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    label = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    if label[:1].isdigit():
        label = f"job-{label}"
    return label[:MAX_NAME].rstrip("-") or "job"


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word nearest to a mistyped one, "" if none is near. Case and dashes do not count."""
    import difflib  # noqa: PLC0415 - only where something was mistyped

    plain = {name.lower().replace("-", "_"): name for name in known}
    close = difflib.get_close_matches(word[:64].lower().replace("-", "_"), plain, n=1, cutoff=0.6)
    return plain[close[0]] if close else ""


def close_name(word: str, known: Iterable[str]) -> str:
    """The only known name that a word misspells; "" if there is none, or more than one.

    Such a name differs in case, dashes and underscores alone, or in at most two letters (one of a short word).
    """
    folded = _folded(word[:64])
    names = {name: _folded(name) for name in known}
    same = [name for name, plain in names.items() if plain == folded]
    most = _LETTERS if len(folded) > _SHORT else 1
    near = same or [name for name, plain in names.items() if edit_distance(folded, plain, most) <= most]
    return near[0] if len(near) == 1 else ""


def edit_distance(one: str, other: str, most: int) -> int:
    """Letters that are missing, added, changed or swapped with the next one; `most` + 1 if there are more.

    Optimal string alignment: https://en.wikipedia.org/wiki/Damerau%E2%80%93Levenshtein_distance
    """
    if abs(len(one) - len(other)) > most:
        return most + 1
    before, row = list[int](), list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, each in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != each))
            is_swap = i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == each
            row.append(min(cost, last[j - 2] + 1) if is_swap else cost)
    return min(row[-1], most + 1)


def _folded(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of an error text: the nearest known word, else every valid one if they are few."""
    names = list(known)
    meant = nearest(word, names)
    if meant:
        return f"; did you mean {meant!r}?"
    return f"; valid are {', '.join(names)}" if 0 < len(names) <= 10 else ""

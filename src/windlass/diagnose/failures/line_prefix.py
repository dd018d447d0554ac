"""Prefixes that launchers, log collectors and loggers put before a message: time, rank, node and the message itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

_MOST_PREFIXES = 6
_HEAD = 400
"""Characters of a line that may hold prefixes."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ISO = (
    r"(?P<year>(?:19|20)\d\d)[-/](?P<month>\d\d)[-/](?P<day>\d\d)[T ](?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
    r"(?:[.,](?P<fraction>\d{1,9}))?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_DATE = (
    rf"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?(?P<name>{'|'.join(_MONTHS)}) +(?P<day>\d\d?) "
    r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<fraction>\d+))?(?: (?P<year>(?:19|20)\d\d))?"
)
_PREFIXES = tuple(
    re.compile(text)
    for text in (
        rf"[\[(]?{_ISO}[\])]?[ :|\t]*(?:- )?",  # ISO 8601, Python logging, kubectl logs --timestamps, journalctl -o iso
        rf"\[?{_DATE}\]? ?",  # syslog, dmesg -T, mpirun --timestamp-output
        r"\[(?P<kind>rank|default|trainer|worker|RANK |Rank |rank )(?P<rank>\d{1,6})\]:? ?",  # torchrun, accelerate
        r"\[r(?P<rank>\d{1,6})(?: (?P<node>[\w.-]+))?\] ?",  # windlass logs
        r"\[agent \d{1,6} (?P<node>[\w.-]+)\] ?",  # windlass logs, of one of several agents of a node
        r"\[pod/[\w.-]+/[\w.-]+\] ?",  # kubectl logs --prefix, which names no node
        r"\[\d{1,6},(?P<rank>\d{1,6})\]<std(?:out|err|diag)>: ?",  # mpirun --tag-output
        r"\[(?P<rank>\d{1,6})\]<std(?:out|err)>: ?",  # Horovod
        r" {0,3}(?P<rank>\d{1,5}): ?",  # srun --label
        r"(?:\x1b\[\d+m)?\((?:[\w.:-]+ )?pid=\d+(?:, ip=(?P<node>[\d.]+))?\) ?",  # Ray
        r"\[ *\d+\.\d{6}\] ?",  # dmesg, seconds since the boot
        r"(?P<node>(?!python|ninja|bash|sh\d|error|x86)[a-z][a-z0-9-]{0,40}\d{1,6}(?:\.[a-z0-9.-]{1,60})?): ",  # pdsh
    )
)
_SYSLOG_HOST = re.compile(r" ?(?P<node>[\w.-]+) (?=[\w./-]+(?:\[\d+\])?: )")
_GLOG = re.compile(
    r"[IWEF](?P<month>\d\d)(?P<day>\d\d) (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<fraction>\d+))?"
)
_NCCL = re.compile(r"(?P<node>[A-Za-z0-9][\w.-]{0,63}):\d+:\d+ \[\d+\] (?:\S+ )?NCCL (?:INFO|WARN|ERROR|TRACE)")
_RANK_INSIDE = re.compile(r"\[(?:PG(?: ID)? \S+ )*(?:PG GUID \S+ )?[Rr]ank (?P<rank>\d{1,6})\]")


@dataclass(frozen=True, slots=True)
class LineOrigin:
    """Origin of one line as its prefixes tell it."""

    message: str
    """The line without the prefixes that were recognised. Headers of glog and NCCL stay: rules contain them."""
    rank: int | None = None
    node: str | None = None
    time: int | None = None
    """Milliseconds since the epoch. A time without a zone is UTC; one without a year is in 1970."""


def read_prefixes(line: str) -> LineOrigin:
    """Splits a line into its origin and its message."""
    head, rest = line[:_HEAD], line[_HEAD:]
    rank: int | None = None
    node: str | None = None
    time: int | None = None
    for _ in range(_MOST_PREFIXES):
        match = next(filter(None, (prefix.match(head) for prefix in _PREFIXES)), None)
        if match is None or not match[0]:
            break
        groups = match.groupdict()
        head = head[match.end() :]
        time = time if time is not None else _milliseconds(groups)
        rank = rank if rank is not None else _number(groups.get("rank"))
        node = node or groups.get("node")
        if groups.get("name") and (host := _SYSLOG_HOST.match(head)):
            node, head = host["node"], head[host.end() :]
    return _with_inner_headers(LineOrigin(head + rest, rank, node, time))


def _with_inner_headers(origin: LineOrigin) -> LineOrigin:
    """Adds what headers that stay in the message tell: glog's time, NCCL's host, torch's rank."""
    head = origin.message[:_HEAD]
    glog, nccl, inside = _GLOG.match(head), _NCCL.match(head), _RANK_INSIDE.search(head)
    return LineOrigin(
        origin.message,
        origin.rank if origin.rank is not None else _number(inside["rank"] if inside else None),
        origin.node or (nccl["node"] if nccl else None),
        origin.time if origin.time is not None else _milliseconds(glog.groupdict() if glog else {}),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text else None


def _milliseconds(groups: dict[str, str | None]) -> int | None:
    """The time of a match, or none where it is not a date."""
    if not groups.get("hour"):
        return None
    month = _MONTHS.index(str(groups["name"])) + 1 if groups.get("name") else int(groups["month"] or 0)
    day, hour, minute, second = (int(groups[name] or 0) for name in ("day", "hour", "minute", "second"))
    try:
        moment = datetime(int(groups.get("year") or 1970), month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    fraction = int(((groups.get("fraction") or "") + "000")[:3])
    return int(moment.timestamp()) * 1000 + fraction - _zone_offset(groups.get("zone") or "")


def _zone_offset(zone: str) -> int:
    if zone in ("", "Z"):
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return (-minutes if zone[0] == "-" else minutes) * 60_000

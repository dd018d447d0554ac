"""Scans one log: which rules fire on which lines, with the rank, node and time of each."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from windlass.diagnose.diagnosis import EvidenceLine
from windlass.diagnose.failures.child_summary import failed_child
from windlass.diagnose.failures.evidence import Fact, LogSource
from windlass.diagnose.failures.line_prefix import LineOrigin, read_prefixes
from windlass.diagnose.failures.log_blocks import LogBlock, LogGaps, read_blocks
from windlass.diagnose.failures.missing_packages import MISSING, distribution_values
from windlass.diagnose.failures.process_ranks import ended_rank
from windlass.diagnose.failures.progress_lines import progress_lines
from windlass.diagnose.failures.shadowed_modules import SHADOWED, shadow_values
from windlass.diagnose.failures.signatures import SignatureMatch, every_signature
from windlass.diagnose.failures.source_labels import label_source
from windlass.diagnose.failures.traceback_frames import TRACEBACK, find_program_frame
from windlass.diagnose.failures.wrapped_lines import unwrap

_PART_BYTES = 1 << 13
"""Size of the parts of a block in which a match is looked for before single lines are matched."""
_MOST_OF_RULE = 3
"""Facts that are kept of one rule, log and rank."""
_MOST_FACTS = 20_000
"""Facts that are kept of one log."""
_LONGEST_TEXT = 2_000
_TIME_SEARCH = 200
"""Lines before a fact in which its time is looked for."""
_TAIL_BYTES = 4096
_END_BYTES = 1 << 17
"""End of a log in which the last line of each rank is looked for."""
_LINES_OF_ONE_RANK = 32
"""Lines at the end of a log without a second rank after which no more ranks are looked for."""
_LINES_OF_PROGRESS = 2
"""Lines of progress after a fact that show that the rank has gone on."""
_TRACEBACK = TRACEBACK.encode()
_COLOUR = re.compile(rb"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[()][A-Z0-9])")
_ESCAPED_QUOTE = re.compile(rb'\\{1,16}"')


@dataclass(slots=True)
class LogFindings:
    """Facts of one log, and what it lacks."""

    source: LogSource
    facts: list[tuple[Fact, int]] = field(default_factory=list)
    """Facts with the number of the signature, in the order of their lines."""
    gaps: LogGaps = field(default_factory=LogGaps)
    lines: int = 0
    last_line: int = 0
    """Number of the last line that is not empty."""
    first_time: int | None = None
    last_time: int | None = None
    tail: tuple[str, ...] = ()
    """The last lines."""
    last_lines: dict[int, str] = field(default_factory=dict)
    """Last line of each rank near the end of the log, where the log has facts."""
    ranks: set[int] = field(default_factory=set)
    """Ranks that the facts and the first and last lines name."""
    repeats: dict[tuple[str, int | None], int] = field(default_factory=dict)
    """Last line that fires a rule, by rule and rank."""
    raised: set[int] = field(default_factory=set)
    """Lines of facts shortly after the head of a traceback."""
    progress: dict[int | None, deque[int]] = field(default_factory=dict)
    """The two latest lines of progress that follow a fact, by rank."""


@dataclass(slots=True)
class _Scan:
    given: LogSource
    """The source without what its name tells."""
    found: LogFindings
    kept: Counter[tuple[str, int, int | None]] = field(default_factory=Counter)
    open: dict[int | None, int] = field(default_factory=dict)
    """Line of the latest fact of each rank that has not gone on since."""
    before: bytes = b""
    """End of the blocks before this one."""

    def scan_block(self, block: LogBlock) -> None:
        """Matches the lines of a block, unless none can match."""
        text = clean_text(block.text)
        self._scan_text(text, block.first_line)
        self.before = _end_of(self.before, text, _TAIL_BYTES)
        if self.open:
            self._note_progress(text, block.first_line)

    def _scan_text(self, text: bytes, first_line: int) -> None:
        signatures = every_signature()
        if not signatures.may_match(text.replace(b"\r", b"\n")):
            return
        for first, part, before in _parts(text, first_line):
            if not signatures.may_match(part.replace(b"\r", b"\n")):
                continue
            recent = deque((before or self.before).removesuffix(b"\n").split(b"\n"), maxlen=_TIME_SEARCH)
            numbers = deque(range(first - len(recent), first), maxlen=_TIME_SEARCH)
            for number, line in _lines(part, first):
                recent.append(line)
                numbers.append(number)
                if signatures.may_match(line) and (found := self._matches(line)):
                    self._keep(found, numbers, line, recent)

    def _matches(self, line: bytes) -> dict[tuple[str, int], SignatureMatch]:
        """Matches of the whole line, and of the message after its prefixes."""
        message = read_prefixes(line.decode("utf-8", "replace")).message.encode()
        texts = [line] if len(message) == len(line) else [line, message]
        return {(match.rule, match.signature): match for text in texts for match in every_signature().matches(text)}

    def _keep(
        self, matches: dict[tuple[str, int], SignatureMatch], numbers: deque[int], line: bytes, recent: deque[bytes]
    ) -> None:
        source, text, number = self.found.source, line.decode("utf-8", "replace"), numbers[-1]
        raised = any(_TRACEBACK in line for line in recent)
        frame = find_program_frame(zip(reversed(numbers), reversed(recent), strict=True)) if raised else None
        place = EvidenceLine(source.name, frame[0], frame[1][:_LONGEST_TEXT]) if frame else None
        origin = self._origin(text)
        rank = origin.rank
        time: int | None = None
        child, host = failed_child(read_prefixes(each.decode("utf-8", "replace")).message for each in reversed(recent))
        ended, ended_on = ended_rank(text)
        rank = next((each for each in (child, ended, rank) if each is not None), None)
        node = ended_on if ended is not None else self.given.node or host or origin.node
        for match in _proven(matches.values(), recent):
            named = match.values.get("rank", "")  # a message about one rank, of an agent for example
            about = int(named) if named.isdecimal() else rank
            self.found.repeats[match.rule, about] = self.open[about] = number
            key = (match.rule, match.signature, rank)
            self.kept[key] += 1
            if self.kept[key] > _MOST_OF_RULE or len(self.found.facts) >= _MOST_FACTS:
                continue
            time = time if time is not None else _time(origin, recent)
            evidence = EvidenceLine(source.name, number, text.strip()[:_LONGEST_TEXT])
            fact = Fact(match.rule, evidence, match.values, about, node, time, place)
            self.found.facts.append((fact, match.signature))
        if raised:
            self.found.raised.add(number)
        if rank is not None:
            self.found.ranks.add(rank)

    def _origin(self, line: str) -> LineOrigin:
        """The origin of a line. Rank and node that the maker of the source gives win over those of the text."""
        origin, source, given = read_prefixes(line), self.found.source, self.given
        known = [each for each in (given.rank, origin.rank, source.rank) if each is not None]
        return replace(origin, rank=known[0] if known else None, node=given.node or origin.node or source.node)

    def note_last_lines(self, end: bytes) -> None:
        """Notes the last line of each rank in the end of the log, of which little is read if it is one rank's."""
        last = self.found.last_lines
        for count, line in enumerate(_lines_from_end(end)):
            if count > _LINES_OF_ONE_RANK and len(last) <= 1:
                break
            text = line.decode("utf-8", "replace").strip()
            if text and (rank := self._origin(text).rank) is not None:
                last.setdefault(rank, text)
        self.found.ranks |= last.keys()

    def _note_progress(self, text: bytes, first_line: int) -> None:
        """Notes the latest lines of progress, back to those that show of every rank that it has gone on."""
        after: dict[int | None, list[int]] = {}
        for number, line in reversed(progress_lines(text, first_line)):
            if not self.open or number <= min(self.open.values()):
                break
            rank = self._origin(line.decode("utf-8", "replace")).rank
            if number <= self.open.get(rank, number):
                continue
            after.setdefault(rank, []).insert(0, number)
            if len(after[rank]) == _LINES_OF_PROGRESS:
                del self.open[rank]
        for rank, numbers in after.items():
            latest = self.found.progress.setdefault(rank, deque(maxlen=_LINES_OF_PROGRESS))
            latest.extend(numbers)
            if rank in self.open and len(latest) == _LINES_OF_PROGRESS and latest[0] > self.open[rank]:
                del self.open[rank]


def scan_log(source: LogSource, report_bytes: Callable[[int], object] = int) -> LogFindings:
    """Reads a log from start to end. Names of files and folders tell rank and node where the source and text do not."""
    scan = _Scan(source, LogFindings(label_source(source)))
    found, last, block = scan.found, b"", None
    try:
        with source.open() as stream:
            for block in unwrap(read_blocks(stream, found.gaps)):
                scan.scan_block(block)
                if block.first_line == 1 and not last:
                    _note_opening(found, block)
                last = _end_of(last, block.text, _END_BYTES)
                report_bytes(len(block.text))
    except OSError as error:
        found.gaps.error = error.strerror or type(error).__name__
    found.lines = block.first_line + block.text.count(b"\n") if block is not None else 0
    found.last_line = found.lines - last[len(last.rstrip()) :].count(b"\n")
    _note_end(found, last[-_TAIL_BYTES:])
    if found.facts:
        scan.note_last_lines(last)
    return found


def clean_text(text: bytes) -> bytes:
    """Text without the codes of colours, with plain quotes where JSON escapes them, and with one kind of line end."""
    if b"\x1b" in text:
        text = _COLOUR.sub(b"", text)
    if b"\\" in text and b'\\"' in text:  # one byte is found many times faster than two
        text = _ESCAPED_QUOTE.sub(b'"', text)
    return text.replace(b"\r\n", b"\n") if b"\r" in text else text


def _proven(matches: Iterable[SignatureMatch], recent: deque[bytes]) -> Iterator[SignatureMatch]:
    """The matches without errors of an import for which no file is to blame; missing packages with their names."""
    for match in matches:
        if match.rule == MISSING:
            yield replace(match, values={**match.values, **distribution_values(match.values)})
        elif match.rule != SHADOWED:
            yield match
        elif values := shadow_values(match.values, reversed(recent)):
            yield replace(match, values=values)


def _end_of(before: bytes, text: bytes, size: int) -> bytes:
    """The last bytes of two texts in a row."""
    return text[-size:] if len(text) >= size else (before + text)[-size:]


def _parts(text: bytes, first: int) -> Iterator[tuple[int, bytes, bytes]]:
    """Whole lines in parts of about `_PART_BYTES`: number of the first line, the part, and the text before it."""
    start = 0
    while start < len(text):
        end = text.find(b"\n", start + _PART_BYTES) + 1 or len(text)
        yield first, text[start:end], text[max(0, start - _TAIL_BYTES) : start]
        first += text.count(b"\n", start, end)
        start = end


def _lines(text: bytes, first: int) -> Iterator[tuple[int, bytes]]:
    """Numbered lines. A progress bar that rewrites its line gives several texts of one number."""
    for number, line in enumerate(text.split(b"\n"), first):
        if b"\r" in line:
            yield from ((number, part) for part in line.split(b"\r") if part)
        elif line:
            yield number, line


def _lines_from_end(text: bytes) -> Iterator[bytes]:
    """Clean lines from the last to the first, by parts of `_TAIL_BYTES` or more: often the last part is enough."""
    end = len(text)
    while end > 0:
        start = text.rfind(b"\n", 0, max(0, end - _TAIL_BYTES)) + 1
        yield from reversed([line for _, line in _lines(clean_text(text[start:end]), 1)])
        end = start - 1


def _time(origin: LineOrigin, recent: deque[bytes]) -> int | None:
    """The time of the line itself, or of the nearest line before it that has one."""
    if origin.time is not None:
        return origin.time
    texts = (read_prefixes(line[:_TAIL_BYTES].decode("utf-8", "replace")) for line in reversed(recent))
    return next((each.time for each in texts if each.time is not None), None)


def _note_opening(found: LogFindings, block: LogBlock) -> None:
    for _, line in _lines(clean_text(block.text[:_TAIL_BYTES]), 1):
        origin = read_prefixes(line.decode("utf-8", "replace"))
        _note_rank(found, origin.rank)
        found.first_time = found.first_time if found.first_time is not None else origin.time


def _note_end(found: LogFindings, last: bytes) -> None:
    found.tail = tuple(line.decode("utf-8", "replace") for _, line in _lines(clean_text(last), 1))[-20:]
    for line in found.tail:
        origin = read_prefixes(line)
        _note_rank(found, origin.rank)
        found.last_time = origin.time if origin.time is not None else found.last_time
    _note_rank(found, found.source.rank)


def _note_rank(found: LogFindings, rank: int | None) -> None:
    if rank is not None:
        found.ranks.add(rank)

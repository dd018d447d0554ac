"""Runs the rules over files. A file that cannot be read is one finding, and the others are checked all the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from windlass.diagnose.lint.batch_script import read_linted_script
from windlass.diagnose.lint.documents import Document, Documents, has_placeholder, read_documents
from windlass.diagnose.lint.findings import Hit, LintFinding, RuleSeverity
from windlass.diagnose.lint.rule import RULES, Rule, Subject
from windlass.diagnose.lint.rules import load_rules
from windlass.diagnose.lint.suppression import Suppressions, read_suppressions
from windlass.jobs.errors import InputError, Place, Problem
from windlass.jobs.slurm.batch_script import is_batch_script
from windlass.jobs.syntax.text import STDIN, Text, decode, read_bytes

MAX_BYTES = 2**26
"""Largest file: the output of Helm for a whole cluster."""
SUFFIXES = (".yaml", ".yml", ".sbatch", ".slurm")
"""Files that are checked in a folder."""

_TEMPLATE = "this is a template; check its output, for example: helm template . | windlass lint -"
_FIX_OF_MISSING = "Name a file or folder that exists; a path without / in front begins at the current folder."

load_rules()


def lint_paths(paths: Iterable[str]) -> list[LintFinding]:
    """The findings of files, folders and standard input ("-"), in order. Raises nothing for any content."""
    texts, findings, listed = list[Text](), list[LintFinding](), set[str]()
    for each in paths:
        files = _files(each)
        listed.update(files if files != [each] else ())
        for path in files:
            try:
                texts.append(decode(read_bytes(path, MAX_BYTES), "<stdin>" if path == STDIN else path))
            except InputError as error:
                findings += _unreadable(error, path)
    found = [*findings, *lint_texts(texts)]
    return [each for each in found if each.message != _TEMPLATE or each.source not in listed]


def _files(path: str) -> list[str]:
    folder = Path(path)
    if path == STDIN or not folder.is_dir():
        return [path]
    return sorted(str(each) for each in folder.rglob("*") if _is_checked(each.relative_to(folder)) and each.is_file())


def _is_checked(path: Path) -> bool:
    """Tells whether a file of a folder is checked: hidden files and folders and the sources of packages are not."""
    return path.suffix in SUFFIXES and not any(part.startswith(".") or part == "node_modules" for part in path.parts)


def lint_texts(texts: Sequence[Text]) -> list[LintFinding]:
    """The findings of several texts, by file and line; comments that ignore rules are heeded."""
    findings, documents = list[LintFinding](), list[Document]()
    comments: dict[str, Suppressions] = {}
    for text in texts:
        comments[text.source] = read_suppressions(text.lines) if "windlass:" in text.text else _NONE
        findings += _unknown_names(text, comments[text.source])
        try:
            if is_batch_script(text):
                findings += _of_script(text)
            else:
                documents += _filled_in(text)
        except InputError as error:
            findings += _unreadable(error, text.source, text)
    findings += itertools.chain.from_iterable(map(_of_document, documents))
    findings += _of_input(Documents(documents))
    kept = {each for each in findings if each.source not in comments or not comments[each.source].ignores(each)}
    order = {text.source: number for number, text in enumerate(texts)}
    return sorted(kept, key=lambda each: (order.get(each.source, 0), each.place.line, each.place.column, each.rule))


def _filled_in(text: Text) -> list[Document]:
    """The documents of a file. Raises InputError, also for a template with names such as {name}."""
    documents = read_documents(text)
    for each in documents:
        if has_placeholder(each):
            raise InputError([Problem(text.source, _TEMPLATE, each.root.at("metadata", "name").place)])
    return documents


_NONE = Suppressions(frozenset(), {}, ())


@cache
def _rules(subject: Subject, kind: str = "") -> list[Rule]:
    return [each for each in RULES.values() if each.subject is subject and (not each.kinds or kind in each.kinds)]


def _finding(rule: Rule, source: str, hit: Hit) -> LintFinding:
    fix = hit.fix or rule.fix
    return LintFinding(
        source, hit.place, rule.id, rule.severity, hit.message, rule.why, fix, rule.source, hit.replacement
    )


def _of_script(text: Text) -> Iterator[LintFinding]:
    script = read_linted_script(text)
    for rule in (*_rules(Subject.SCRIPT), *_rules(Subject.ENVIRONMENT)):
        for hit in rule.check(script):
            yield _finding(rule, text.source, hit)


def _of_document(document: Document) -> Iterator[LintFinding]:
    hits = list(_hits(document))
    places = {hit.place for rule, hit in hits if not rule.is_general and rule.severity is RuleSeverity.ERROR}
    for rule, hit in hits:
        if not (rule.is_general and hit.place in places):
            yield _finding(rule, document.text.source, document.in_file(hit))


def _hits(document: Document) -> Iterator[tuple[Rule, Hit]]:
    if not document.kind:
        return
    for rule in _rules(Subject.DOCUMENT, document.kind):
        yield from ((rule, hit) for hit in rule.check(document))
    for environment in document.environments:
        for rule in _rules(Subject.ENVIRONMENT):
            yield from ((rule, hit) for hit in rule.check(environment))
    for pod in document.pods:
        for rule in _rules(Subject.POD, document.kind):
            yield from ((rule, hit) for hit in rule.check(pod))
        for container in pod.all_containers:
            for rule in (*_rules(Subject.CONTAINER, document.kind), *_rules(Subject.ENVIRONMENT)):
                yield from ((rule, hit) for hit in rule.check(container))


def _of_input(documents: Documents) -> Iterator[LintFinding]:
    for rule in _rules(Subject.INPUT):
        for document, hit in rule.check(documents):
            yield _finding(rule, document.text.source, document.in_file(hit))


def _unreadable(error: InputError, source: str, text: Text | None = None) -> list[LintFinding]:
    """The first problem of a file as a finding; a template's own text and a missing file are named as such."""
    problem = error.problems[0]
    place, message = problem.place or Place(1, 1), problem.message
    fix = "" if text is not None or source == STDIN or Path(source).exists() else _FIX_OF_MISSING
    if text is not None and "{{" in text.text:
        message = _TEMPLATE
    name = "<stdin>" if source == STDIN else source
    return [_finding(RULES["unreadable-file"], name, Hit(place, message, fix=fix))]


def _unknown_names(text: Text, comments: Suppressions) -> list[LintFinding]:
    rule = RULES["unknown-ignore"]
    return [
        _finding(rule, text.source, Hit(place, f"there is no rule {name[:60]!r}"))
        for name, place in comments.names
        if name not in RULES
    ]


def worst(findings: Iterable[LintFinding]) -> RuleSeverity | None:
    """The highest severity of findings; None without any."""
    found = {each.severity for each in findings}
    return next((severity for severity in RuleSeverity if severity in found), None)

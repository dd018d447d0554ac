"""Checks names and prose for what a program can see: headless sentences, personal pronouns, names that are no nouns.

Looks at every Python file below the checked folders that git knows or would add. Prints one line per finding; exits 1
if there is one. `--package core` looks at `src/windlass/core` alone, `--package tests/unit/core` at that folder.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from check_sizes import python_files

CHECKED = ("src/", "tests/", "benchmarks/", "examples/", "tools/")

HEADLESS = "who|whoever|what|whatever|whose|where|how|that|those|nobody|somebody"
PERSONAL = "he|him|his|himself|whoever|nobody|somebody"
DOCSTRING_START = re.compile(rf"\W*({HEADLESS})\b", re.IGNORECASE)
NAME_START = re.compile(rf"_*(?:test_)?({HEADLESS}|why)(?:_|$)", re.IGNORECASE)
PRONOUN = re.compile(rf"\b({PERSONAL})\b", re.IGNORECASE)
QUOTED = re.compile(r"`[^`]*`|https?://\S+")

# Endings and words that make no noun at the end of a module's name.
PARTICIPLE = re.compile(r"\w+(?:ing|ed)")
PREPOSITIONS = frozenset({"at", "by", "for", "from", "in", "of", "on", "to", "with"})
# fmt: off
NO_NOUNS = frozenset({
    "alone", "apart", "asked", "bare", "beyond", "both", "declared", "due", "durable", "finite", "fresh", "given",
    "held", "heard", "kept", "known", "left", "less", "lost", "made", "owed", "own", "past", "possible", "said",
    "seen", "sent", "shut", "structural", "taken", "thrown", "together", "told", "torn", "typical", "unknown",
    "whose", "why", "written",
})
# fmt: on
NOUNS = {
    "aging": "of a waiting job's priority: the term of Slurm and of operating systems",
    "backfilling": "the scheduling literature's term",
    "batching": "the term of serving and of data loading",
    "binding": "Kubernetes' object that puts a pod on a node",
    "checkpointing": "the field's term, as in activation checkpointing",
    "embedding": "a layer of a model",
    "monitoring": "watching metrics: the term of Prometheus, and of its operator's API group",
    "feed": "a stream of events",
    "formatting": "of values as text: the term of libraries",
    "gathering": "of waiting pods into gangs",
    "keyring": "a set of keys",
    "logging": "the standard library's term",
    "mapping": "the standard library's term",
    "ordering": "a total order over things",
    "packing": "bin packing",
    "paging": "of a long list: the term of the Kubernetes API",
    "pruning": "of checkpoints and of unknown fields: the term of both fields",
    "rendering": "what a template yields",
    "ring": "a ring buffer",
    "scaling": "elastic scaling, loss scaling",
    "scheduling": "the field",
    "scoring": "the second phase of Kubernetes' scheduler",
    "seed": "of a random number generator",
    "settings": "of a program",
    "resizing": "of an elastic gang, as of a volume: its change of size",
    "sharing": "of a GPU among pods",
    "sorting": "into an order",
    "spread": "of a gang over a topology",
    "spreading": "topology spread, the opposite of packing",
    "staging": "the staging directory",
    "string": "a text",
    "training": "the field",
    "warning": "the standard library's term",
}
NAMES_ALLOWED = {
    "what_if": "what-if analysis, as query planners and capacity planners say",
    "why": "the command `windlass why`",
}
# Public classes of one name in several modules of src/, each with the reason why the name is right in all of them.
ONE_NAME_TWICE: dict[str, str] = {
    "Client": "of the Python API, and of the daemon's API",
    "Job": "of the core, and its handle in the Python API: the term of both",
    "JobFailedError": "of the Python API, and of a measured run",
    "Finding": "of an installation's check, and of a lab's check",
    "Lab": "a lab of the workshop, and the program JupyterLab",
    "Fault": "of a simulated machine and of a manifest's field",
    "Outcome": "of a simulation and of a request to the API server",
    "ApiError": "errors of the daemon's API and of the Kubernetes API",
    "Level": "a level of the topology: its domains in the node table, its labels on Kubernetes",
    "Plan": "of a scheduling cycle, and of a model's parallelism: the term of both fields",
    "Run": "of a gang as pods, and of a training script: the term of both fields",
    "Access": "of a user to an API server, in the client and in the plain client by which its tests observe",
    "Machine": "declared to the local backend, and made of namespaces by the control plane of labs",
    "Script": "of a simulation, and of a pod on a fake node",
    "Settings": "of a control plane on this machine, and of the readers of manifests",
    "RunOptions": "of the command `windlass run`, and of a training run",
}
# Modules whose classes may have the names of others.
FOREIGN_NAMES = {
    "src/windlass/backends/kubernetes/client/objects.py": "classes have the names of Kubernetes' API",
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--package", action="append", help="check only this package of src/windlass, or this folder")
    chosen = parser.parse_args(arguments).package
    root = Path(__file__).resolve().parent.parent
    files = [path.relative_to(root) for path in python_files(root)]
    checked = [name for name in files if is_checked(name, chosen)]
    findings = [finding for name in checked for finding in check(root / name, name)]
    findings += repeated_classes(root, files if chosen else checked, set(checked))
    print(*findings, sep="\n", end="\n" if findings else "")
    return 1 if findings else 0


def is_checked(name: Path, chosen: list[str] | None) -> bool:
    """Whether a file is below a checked folder and, if packages are chosen, in one of them."""
    if not name.as_posix().startswith(CHECKED):
        return False
    return not chosen or any(is_below(name, folder) or is_below(name, f"src/windlass/{folder}") for folder in chosen)


def is_below(name: Path, folder: str) -> bool:
    whole = Path(folder.rstrip("/"))
    return name.is_relative_to(whole) or name == whole.with_suffix(".py")


def check(path: Path, name: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    yield from module_name(name)
    yield from defined_names(tree, name)
    yield from docstrings(tree, name)
    yield from comments(text, name)
    if name.parts[0] == "src":
        yield from messages(tree, name)


def module_name(name: Path) -> Iterator[str]:
    stem = name.parent.name if name.stem == "__init__" else name.stem
    words = stem.removeprefix("test_").split("_")
    if stem in NAMES_ALLOWED:
        return
    if stem.startswith("test_") and len(words) > 1:
        if NAME_START.match(stem):
            yield f"{name}: a test file's name begins with a noun, not with {words[0]!r}"
    elif NAME_START.match(stem) or not is_noun(words):
        yield f"{name}: a module's name is a noun or a noun phrase (a noun in -ing or -ed belongs into NOUNS)"


def is_noun(words: list[str]) -> bool:
    """Whether the head of a phrase, the last word before its first preposition, can be a noun."""
    after = next((index for index, word in enumerate(words) if word in PREPOSITIONS and index), len(words))
    word = words[after - 1]
    return word in NOUNS or (word not in NO_NOUNS and not PARTICIPLE.fullmatch(word))


def defined_names(tree: ast.Module, name: Path) -> Iterator[str]:
    """Findings in the names of functions and classes: a pronoun anywhere, a question word at the beginning."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name not in NAMES_ALLOWED:
            if PRONOUN.search(node.name.replace("_", " ")):
                yield f"{name}:{node.lineno}: {node.name}: a personal pronoun in a name"
            elif NAME_START.match(node.name):
                yield f"{name}:{node.lineno}: {node.name}: begin with a verb (a test: with a noun)"


def docstrings(tree: ast.Module, name: Path) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            if start := DOCSTRING_START.match(node.value.value):
                yield f"{name}:{node.lineno}: a docstring begins with a noun or a verb, not with {start[1]!r}"
            yield from pronouns(node.value.value, name, node.lineno)


def comments(text: str, name: Path) -> Iterator[str]:
    if PRONOUN.search(text):  # splitting a file into tokens takes ten times as long as this look at it
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield from pronouns(token.string, name, token.start[0])


def messages(tree: ast.Module, name: Path) -> Iterator[str]:
    """Findings in the texts that a program prints: string constants with a space that are no docstrings."""
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = isinstance(node, ast.Constant) and id(node) not in documented and node.value
        if isinstance(text, str) and " " in text:
            yield from pronouns(text, name, node.lineno)


def pronouns(text: str, name: Path, line: int) -> Iterator[str]:
    """Findings in one text that begins in this line; what stands in backquotes is a name, such as the user `nobody`."""
    for number, part in enumerate(QUOTED.sub("", text).split("\n")):
        for found in PRONOUN.finditer(part):
            yield f"{name}:{line + number}: {found[0]!r}: name the thing, or say 'it'"


def repeated_classes(root: Path, files: Iterable[Path], checked: set[Path]) -> Iterator[str]:
    """Findings for public classes of one name in several modules of src/, at least one of them a checked module."""
    places = defaultdict[str, list[str]](list)
    seen = set()
    for name in files:
        if name.parts[0] == "src" and name.as_posix() not in FOREIGN_NAMES:
            for node in ast.parse((root / name).read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(f"{name}:{node.lineno}")
                    if name in checked:
                        seen.add(node.name)
    for name, where in sorted(places.items()):
        if len(where) > 1 and name in seen and name not in ONE_NAME_TWICE:
            others = ", ".join(where[1:])
            yield f"{where[0]}: class {name} is also in {others}: rename one, or give a reason in ONE_NAME_TWICE"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

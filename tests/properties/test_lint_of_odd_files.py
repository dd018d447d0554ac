"""`windlass lint` reports any file and raises for none: edited manifests, and values of any shape in known fields."""

import json
import time
from pathlib import Path

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.diagnose.lint.engine import lint_texts
from windlass.diagnose.lint.reports import FORMATS
from windlass.jobs.errors import InputError
from windlass.jobs.syntax.text import decode


def is_yaml(path):
    return path.suffix == ".yaml" and path.stem != "unreadable-file"


BROKEN = sorted((Path(__file__).parents[2] / "examples/broken").iterdir())
TEXTS = [path.read_text() for path in BROKEN]
PIECES = (
    """\t|\r\n|\ufeff|---\n|&a |*a |!!int |? |- |: |{|]|"|'|#|\0|\u2028|é|<<: |~|0x1|1e999|${X}|{{ x }}|%|@|\x1b[31m"""
)
PIECES = [*PIECES.split("|"), "|\n", "9" * 400]
DOCUMENTS = [list(yaml.safe_load_all(text)) for path, text in zip(BROKEN, TEXTS, strict=True) if is_yaml(path)]
NAMES = sorted({word.strip("-:{}[], \"'") for text in TEXTS for word in text.split() if word.endswith(":")})
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.sampled_from(["$(A)", "0", "8", "lo"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=20,
)


def replaced(document, path, value):
    """A document whose part at a path of positions is another value; a path that is too long ends at a leaf."""
    if not path or not document or not isinstance(document, dict | list):
        return value
    keys = list(document) if isinstance(document, dict) else range(len(document))
    chosen = keys[path[0] % len(keys)]
    items = document.items() if isinstance(document, dict) else enumerate(document)
    parts = [(key, replaced(part, path[1:], value) if key == chosen else part) for key, part in items]
    return dict(parts) if isinstance(document, dict) else [part for _, part in parts]


@st.composite
def edited(draw):
    """A file of examples/broken with pieces inserted, cut out or doubled."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 40)))
        piece = draw(st.sampled_from([*PIECES, "", text[start:end] * 2]))
        text = text[:start] + piece + text[end:]
    return text


def check(text):
    start = time.monotonic()
    try:
        findings = lint_texts([decode(text.encode("utf-8", "surrogatepass"), "odd.yaml")])
    except InputError:  # no text: tests of hostile files read these
        return
    assert time.monotonic() - start < 20
    lines = text.count("\n") + text.count("\r") + text.count("\u2028") + 1
    assert all(1 <= each.place.line <= lines and each.place.column >= 1 for each in findings)
    for report in FORMATS.values():
        assert all(ord(each) >= 32 or each == "\n" for each in report(findings))


@settings(max_examples=150, deadline=None)
@given(edited())
def test_an_edited_manifest_is_reported(text):
    check(text)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(DOCUMENTS), st.lists(st.integers(0, 9), max_size=9), VALUES)
def test_values_of_any_shape_are_reported(documents, path, value):
    check(
        "\n---\n".join(json.dumps(each, default=str) for each in [replaced(documents[0], path, value), *documents[1:]])
    )

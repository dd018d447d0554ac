from pathlib import Path

import check_words
import pytest


def findings(tmp_path, text, name="src/windlass/core/queues.py"):
    path = tmp_path / "module.py"
    path.write_text(text)
    return list(check_words.check(path, Path(name)))


@pytest.mark.parametrize("word", ["Who", "What", "Whatever", "Whose", "Where", "How", "That", "Those"])
def test_a_docstring_that_begins_with_a_headless_word_is_a_finding(tmp_path, word):
    text = f'def f():\n    """{word} waits."""\n'
    assert findings(tmp_path, text) == [
        f"src/windlass/core/queues.py:2: a docstring begins with a noun or a verb, not with {word!r}"
    ]


@pytest.mark.parametrize("text", ['"""What a module does."""\n', 'A = 1\n"""How many."""\n', '"""«Who» waits."""\n'])
def test_every_kind_of_docstring_is_checked(tmp_path, text):
    assert len(findings(tmp_path, text)) == 1


@pytest.mark.parametrize("start", ["Whether", "Thatched", "The job that waits", "Howard", "When", "Which"])
def test_other_beginnings_of_a_docstring_are_fine(tmp_path, start):
    assert findings(tmp_path, f'"""{start}: text."""\n') == []


@pytest.mark.parametrize("word", ["he", "Him", "his", "himself", "whoever", "nobody", "Somebody"])
@pytest.mark.parametrize("text", ['"""The pod, {}."""\n', "# The pod, {}.\n", 'A = "the pod, {}"\n'])
def test_a_personal_pronoun_is_a_finding(tmp_path, word, text):
    assert findings(tmp_path, text.format(word)) == [
        f"src/windlass/core/queues.py:1: {word!r}: name the thing, or say 'it'"
    ]


def test_a_pronoun_is_found_in_its_line_of_a_long_docstring(tmp_path):
    text = '"""A pod.\n\nIt ends, and then\nhe is deleted.\n"""\n'
    assert findings(tmp_path, text) == ["src/windlass/core/queues.py:4: 'he': name the thing, or say 'it'"]


@pytest.mark.parametrize("text", ['"""Runs as `nobody`."""\n', 'USER = "nobody"\n', "# they, her, this, the, theme\n"])
def test_names_in_backquotes_strings_of_one_word_and_parts_of_words_are_no_pronouns(tmp_path, text):
    assert findings(tmp_path, text) == []


def test_texts_of_tests_may_hold_pronouns(tmp_path):
    assert findings(tmp_path, 'A = "says that he waits"\n', "tests/unit/core/test_queues.py") == []


@pytest.mark.parametrize(
    ("name", "finding"),
    [
        ("what_it_needs", "begin with a verb (a test: with a noun)"),
        ("_whose", "begin with a verb (a test: with a noun)"),
        ("test_who_waits", "begin with a verb (a test: with a noun)"),
        ("test_a_job_that_nobody_wants", "a personal pronoun in a name"),
        ("restart_him", "a personal pronoun in a name"),
    ],
)
def test_a_name_with_a_question_word_or_a_pronoun_is_a_finding(tmp_path, name, finding):
    assert findings(tmp_path, f"def {name}(): ...\n") == [f"src/windlass/core/queues.py:1: {name}: {finding}"]


@pytest.mark.parametrize("name", ["whole_nodes", "show_jobs", "test_the_job_that_waits_is_first", "theory", "what_if"])
def test_other_names_are_fine(tmp_path, name):
    assert findings(tmp_path, f"def {name}(): ...\n") == []


@pytest.mark.parametrize(
    "name",
    ["handing", "given", "pod_placing", "respecified", "room_gained", "whose", "test_owing", "asking/__init__"],
)
def test_a_module_named_by_a_participle_is_a_finding(tmp_path, name):
    [finding] = findings(tmp_path, "", f"src/windlass/core/{name}.py")
    assert "a module's name is a noun or a noun phrase" in finding


@pytest.mark.parametrize(
    "name",
    ["bind_pods", "scheduling", "loss_scaling", "reasons_for_pending", "feed", "test_a_node_is_drained", "what_if"],
)
def test_a_module_named_by_a_noun_is_fine(tmp_path, name):
    assert findings(tmp_path, "", f"src/windlass/core/{name}.py") == []


def test_a_test_file_named_by_a_question_is_a_finding(tmp_path):
    name = "tests/unit/core/test_what_jobs_become.py"
    assert findings(tmp_path, "", name) == [f"{name}: a test file's name begins with a noun, not with 'what'"]


def repeated(root, checked=None, **modules):
    files = []
    for name, text in modules.items():
        files.append(Path(f"src/windlass/{name}.py"))
        (root / files[-1]).parent.mkdir(parents=True, exist_ok=True)
        (root / files[-1]).write_text(text)
    return list(check_words.repeated_classes(root, files, set(checked or files)))


def test_two_public_classes_of_one_name_are_a_finding(tmp_path):
    [finding] = repeated(tmp_path, queues="class Gang: ...\n", nodes="\nclass Gang: ...\n")
    assert finding.startswith("src/windlass/queues.py:1: class Gang is also in src/windlass/nodes.py:2: rename one")


def test_classes_of_one_name_are_a_finding_only_for_a_checked_module(tmp_path):
    other = [Path("src/windlass/jobs.py")]
    assert repeated(tmp_path, other, queues="class Gang: ...\n", nodes="class Gang: ...\n") == []
    assert len(repeated(tmp_path, [*other, Path("src/windlass/nodes.py")], queues="class Gang: ...\n")) == 0


def test_private_classes_may_have_one_name(tmp_path):
    assert repeated(tmp_path, queues="class _Gang: ...\n", nodes="class _Gang: ...\n") == []


def test_one_name_twice_needs_a_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(check_words, "ONE_NAME_TWICE", {"Gang": "a reason"})
    assert repeated(tmp_path, queues="class Gang: ...\n", nodes="class Gang: ...\n") == []


def test_every_reason_still_excuses_a_name():
    root = Path(check_words.__file__).parents[1]
    files = [path.relative_to(root) for path in check_words.python_files(root)]
    check_words_without_reasons = {**check_words.ONE_NAME_TWICE}
    check_words.ONE_NAME_TWICE.clear()
    try:
        found = list(check_words.repeated_classes(root, files, set(files)))
    finally:
        check_words.ONE_NAME_TWICE.update(check_words_without_reasons)
    repeated_names = {finding.split(": class ")[1].split(" ")[0] for finding in found}
    assert check_words_without_reasons.keys() <= repeated_names


@pytest.mark.parametrize(
    ("name", "chosen", "checked"),
    [
        ("src/windlass/core/queues.py", ["core"], True),
        ("src/windlass/core/queues.py", ["src/windlass/core"], True),
        ("src/windlass/controller.py", ["controller"], True),
        ("src/windlass/corex/queues.py", ["core"], False),
        ("tests/unit/core/test_queues.py", ["core"], False),
        ("tests/unit/core/test_queues.py", ["core", "tests/unit/core"], True),
        ("docs/conf.py", ["docs"], False),
        ("docs/conf.py", None, False),
        ("src/windlass/core/queues.py", None, True),
        ("src/windlass/cores.py", ["core"], False),
        ("tools/soak.py", None, True),
    ],
)
def test_the_packages_asked_for_are_checked(name, chosen, checked):
    assert check_words.is_checked(Path(name), chosen) is checked

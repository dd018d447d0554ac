"""The concept cards: their form, their length, and the commands that they name."""

import re
import shlex
from pathlib import Path

import pytest

import windlass
from windlass.cli.verb_table import VERBS

CARDS = sorted((Path(windlass.__file__).parent / "labs/cards").glob("*.md"))
WORDS = 350
CONCEPTS = {
    "hpc_and_cloud", "roofline", "rdma", "pods", "jobs", "gangs", "collectives", "data_parallel", "model_parallel",
    "fsdp", "queues", "backfill", "checkpoints", "failures", "gpu_sharing", "slurm_and_kubernetes", "gpu_stack",
    "device_plugins", "tutorial_errors",
}  # fmt: skip


def test_there_is_a_card_for_each_concept():
    assert {card.stem for card in CARDS} >= CONCEPTS


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.stem)
def test_a_card_has_a_title_something_to_try_and_sources(card):
    headings = re.findall(r"^#+ .*", card.read_text(encoding="utf-8"), re.MULTILINE)
    assert [heading for heading in headings if heading.startswith("# ")] == headings[:1]
    assert headings[-2:] == ["## Try it", "## Sources"]


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.stem)
def test_a_card_is_read_in_two_minutes(card):
    without_code = re.sub(r"^```.*?^```", "", card.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert len(re.findall(r"[A-Za-z][\w'-]*", without_code.split("## Sources")[0])) <= WORDS


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.stem)
def test_a_card_has_a_figure_or_a_table(card):
    assert re.search(r"^(```text|\|---)", card.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.stem)
def test_the_verbs_to_try_exist(card):
    [typed] = re.findall(r"^```sh\n(.*?)^```", card.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    commands = [shlex.split(line) for line in typed.splitlines()]
    assert {words[1] for words in commands if words[0] == "windlass"} <= VERBS.keys()
    assert all(words[0] == "windlass" or words[:2] == ["python", "-m"] for words in commands)

"""The page of the workshop in a browser: labs, progress that changes, texts, accessibility."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dashboard_visit import Visit
from terminal import ok

import strays
from windlass.labs.concept_cards import card_titles
from windlass.labs.lab_catalog import all_labs, lab_ids

PATHS = ("/workshop", f"/workshop/labs/{lab_ids()[0]}", "/workshop/cards/collectives", "/workshop/cards/roofline")


@pytest.fixture(scope="module")
def labs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a learner who has begun the first lab and answered a quiz."""
    folder = tmp_path_factory.mktemp("labs")
    keep_progress(folder, {lab_ids()[0]: {"started_at": 1, "checks": 2}})
    return folder


def keep_progress(folder: Path, labs: dict[str, dict[str, int]]) -> None:
    (folder / ".workshop").mkdir(exist_ok=True)
    quizzes = {"c-before": {"right": 3, "asked": 4, "at": 1}}
    (folder / ".workshop/progress.json").write_text(json.dumps({"labs": labs, "quizzes": quizzes}))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, labs: Path) -> Iterator[Path]:
    state = tmp_path_factory.mktemp("workshop") / "state"
    ok(state, "up", "-d", env={"WINDLASS_LABS": str(labs)})
    yield state
    ok(state, "down", "--yes")
    strays.assert_none_left([state])


def test_all_labs_are_listed_with_state_and_scores(visit: Callable[..., Visit], labs: Path):
    page = visit().see("/workshop")
    assert page.locator("#labs tbody tr").count() == len(all_labs())
    assert page.locator("#labs tbody tr").first.locator(".state").inner_text() == "started"
    assert f"0 of {len(all_labs())}" in page.locator(".head [role=status]").inner_text()
    assert "3 of 4" in page.locator("#quizzes tbody tr").nth(2).inner_text()
    assert page.locator("#cards li").count() == len(card_titles())
    assert page.locator("nav a[aria-current]").inner_text() == "Workshop"


def test_a_lab_that_is_accepted_changes_the_open_page(visit: Callable[..., Visit], labs: Path):
    page = visit().see("/workshop")
    keep_progress(labs, {lab_ids()[0]: {"started_at": 1, "accepted_at": 2}})
    page.wait_for_selector("#labs .state.Succeeded", timeout=20_000)
    keep_progress(labs, {lab_ids()[0]: {"started_at": 1, "checks": 2}})


def test_the_text_of_a_lab_has_its_steps_and_leads_to_its_cards(visit: Callable[..., Visit]):
    lab = next(lab for lab in all_labs() if lab.facts.cards)
    page = visit().see(f"/workshop/labs/{lab.facts.id}")
    assert page.locator("h1").inner_text() == lab.text.splitlines()[0].removeprefix("# ")
    assert page.locator("pre[aria-label='Commands to type']").count() == lab.text.count("```sh")
    page.locator(".facts a").first.click()
    page.wait_for_url(f"**/workshop/cards/{lab.facts.cards[0]}")


def test_tables_and_code_of_a_card_are_drawn(visit: Callable[..., Visit]):
    page = visit().see("/workshop/cards/collectives")
    assert page.locator("h1").inner_text() == "Collectives"
    assert page.locator("table").count() == 2
    assert page.locator("pre code").inner_text().strip() == "windlass network test -N 2"
    assert page.locator("a[href^='https://github.com/NVIDIA/nccl-tests']").count() == 1


def test_a_part_that_does_not_exist_says_so(visit: Callable[..., Visit]):
    signed_in = visit()
    page = signed_in.see("/workshop/cards/nothing")
    assert "has no part" in page.locator(".problem").inner_text()
    signed_in.trouble.clear()  # the browser reports the refused request


@pytest.mark.parametrize("width", [390, 1280, 2400])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_are_accessible_and_no_wider_than_their_window(visit: Callable[..., Visit], dark: bool, width: int):
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 - beside playwright

    signed_in = visit(dark=dark, width=width)
    for path in PATHS:
        page = signed_in.see(path)
        page.wait_for_timeout(500)  # axe reads colors
        found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa"]})
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"
        assert page.evaluate("document.documentElement.scrollWidth") <= width

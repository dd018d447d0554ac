"""The dashboard in a browser: pages of a live daemon, changes as they happen, hostile output, accessibility."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dashboard_visit import Visit
from terminal import ok

import strays

PAGES = ("/", "/queue?why=waiter-3", "/nodes?view=cards", "/share", "/history", "/simulator")
TRAINING = """
import time
import torch
from windlass import train

with train.init() as run:
    model, optimizer = run.parallelize(lambda: torch.nn.Linear(8, 1), optimizer=torch.optim.SGD, lr=0.01)
    dataset = torch.utils.data.TensorDataset(torch.ones(4096, 8), torch.zeros(4096, 1))
    data = run.data(dataset, global_batch=4)
    checkpoints = run.checkpoint(state=run.state(model, optimizer, data), every="40 steps")
    for batch in checkpoints.resume().steps(100):
        time.sleep(0.05)
        loss = run.backward(model, batch, torch.nn.functional.mse_loss)
        run.step(optimizer, loss=loss)
"""
OVERFLOW = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has 3.41 GiB free."
HOSTILE = "<img src=x onerror=document.title='taken'> <script>document.title='taken'</script>"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A daemon with two nodes: a job that waits, one that has trained, two that failed, one of them twice."""
    folder = tmp_path_factory.mktemp("dashboard")
    state = folder / "state"
    script = folder / "script.py"
    script.write_text(TRAINING)
    ok(state, "up", "-d", "--local-nodes", "2", "--local-gpus", "2")
    kept = {"WINDLASS_CHECKPOINTS": str(folder / "kept")}
    ok(state, "run", "--name", "lesson", "-N", "2", "--cpus", "0", "--", sys.executable, str(script), env=kept)
    ok(state, "submit", "--name", "holder", "-N", "3", "-G", "1", "--time", "1h", "--", "sleep", "3600")
    ok(state, "submit", "--name", "waiter", "-N", "3", "-G", "1", "--time", "1h", "--", "sleep", "3600")
    hostile = ["run", "--name", "hostile", "--cpus", "0", "--", "sh", "-c", f'echo "{HOSTILE}"; exit 3']
    ok(state, "submit", *hostile[1:])
    overflow = ("--name", "overflow", "--cpus", "0", "--restarts", "1", "--", "sh", "-c", f"echo '{OVERFLOW}'; exit 1")
    ok(state, "submit", *overflow)
    yield state
    ok(state, "down", "--yes")
    strays.assert_none_left([state])


@pytest.mark.parametrize("width", [390, 2400], ids=["phone", "wall"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_page_is_accessible_and_loads_nothing_from_elsewhere(visit: Callable[..., Visit], dark: bool, width: int):
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 - beside playwright

    signed_in = visit(dark=dark, width=width)
    for path in (*PAGES, "/jobs/lesson-1", "/jobs/waiter-3", "/jobs/overflow-5", "/nodes"):
        page = signed_in.see(path)
        page.wait_for_timeout(500)  # axe reads colors, and bars change theirs slowly
        found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa"]})
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"


@pytest.mark.parametrize("width", [390, 768, 2400])
def test_no_page_is_wider_than_its_window(visit: Callable[..., Visit], width: int):
    signed_in = visit(width=width)
    for path in (*PAGES, "/jobs/lesson-1", "/jobs/waiter-3", "/jobs/overflow-5", "/nodes"):
        page = signed_in.see(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_a_waiting_job_shows_position_reason_holder_and_start(visit: Callable[..., Visit]):
    page = visit().see("/jobs/waiter-3")
    page.get_by_text("Why it waits").wait_for()
    text = page.locator("main").inner_text()
    assert "Position 1: needs 3×1 gpu as one gang: 1 free on 1 node, room for 1 of 3" in text
    assert "Would start now with: 1 replica instead of 3" in text
    assert page.get_by_role("link", name="holder-2").is_visible()
    assert "Starts in" in text


def test_the_overview_shows_what_is_allocated_now_and_over_time(visit: Callable[..., Visit]):
    page = visit().see("/")
    assert page.get_by_role("img", name="allocated 3 gpu, fragmented 1 gpu, idle 0 gpu, broken 0 gpu").is_visible()
    course = page.locator("section", has_text="Course of the cluster")
    course.locator("canvas").first.wait_for()
    assert course.get_by_role("heading", level=3).all_inner_texts()[0].strip() == "gpu"
    assert page.locator(".finding", has_text="hostile-4").is_visible()


def test_the_overview_lists_what_changed_in_the_last_hour(visit: Callable[..., Visit]):
    page = visit().see("/")
    changes = page.get_by_role("region", name="Changes of the last hour")
    rows = [" ".join(row.split()[1:3]) for row in changes.locator("tbody tr").all_inner_texts()]
    assert "lesson-1 started" in rows
    assert "lesson-1 succeeded" in rows
    assert rows.index("lesson-1 succeeded") < rows.index("lesson-1 started")


def test_fair_shares_have_a_course(visit: Callable[..., Visit]):
    page = visit().see("/share#time")
    page.locator("#time canvas").first.wait_for(timeout=15_000)
    assert page.locator("#time").get_by_role("img", name="Share of the cluster per weight").is_visible()


def test_filters_of_the_history_are_the_address(visit: Callable[..., Visit]):
    signed_in = visit()
    page = signed_in.see("/history")
    page.get_by_label("State", exact=True).select_option("Failed")
    page.get_by_role("link", name="hostile-4").wait_for()
    page.get_by_role("link", name="lesson-1").wait_for(state="detached")
    again = signed_in.see(page.url.removeprefix(signed_in.base))
    assert again.get_by_role("link", name="hostile-4").is_visible()
    assert not again.get_by_role("link", name="lesson-1").count()
    again = signed_in.see("/history?queue=nowhere")
    assert "No ended job matches these filters." in again.locator("main").inner_text()


def test_a_what_if_is_answered_by_the_scheduler(visit: Callable[..., Visit]):
    signed_in = visit()
    page = signed_in.see("/jobs/waiter-3")
    answer = page.locator("section", has_text="What if").get_by_role("status")
    page.get_by_label("Replicas", exact=True).fill("1")
    answer.get_by_text("It would start now.").wait_for()
    page.get_by_label("Replicas", exact=True).fill("4")
    answer.get_by_text("It would wait: needs 4×1 gpu as one gang").wait_for()
    page.get_by_label("Replicas", exact=True).fill("9")
    answer.get_by_text("could never run here").wait_for()
    assert signed_in.trouble.pop().endswith("422 (Unprocessable Entity)")  # the browser's note of the refusal
    page.get_by_label("Replicas", exact=True).fill("")
    page.get_by_label("Time limit", exact=True).fill("abc")
    answer.get_by_text("Time limit expects a duration").wait_for()
    signed_in.trouble.clear()


def test_the_queue_explains_a_job_and_answers_a_suggestion(visit: Callable[..., Visit]):
    page = visit().see("/queue")
    page.get_by_role("button", name="Why waiter-3 waits").click()
    why = page.locator("#why")
    why.get_by_role("link", name="holder-2").wait_for()
    why.get_by_role("button", name="1 instead of 3 replicas").click()
    why.get_by_text("It would start now.").wait_for()
    assert "why=waiter-3" in page.url


def test_the_time_axis_shows_runs_expected_starts_and_reservations(visit: Callable[..., Visit], daemon: Path):
    ok(daemon, "reserve", "works", "-N", "1", "--from", "3h", "--for", "1h", "--maintenance")
    page = visit().see("/queue#time")
    axis = page.locator("#time")
    axis.get_by_role("img", name="waiter-3 expected to run from").wait_for()
    axis.get_by_role("img", name="holder-2 runs until").wait_for()
    axis.get_by_role("img", name="works reserved from").wait_for(timeout=20_000)  # computed every few seconds
    axis.get_by_text("As a table").click()
    assert axis.get_by_role("cell", name="maintenance").is_visible()
    ok(daemon, "reserve", "works", "--delete")


def test_a_node_is_chosen_on_the_map_and_shows_its_past(visit: Callable[..., Visit]):
    page = visit().see("/nodes")
    nodes = page.get_by_role("img", name="Map of 2 nodes by job")
    nodes.focus()
    nodes.press("ArrowRight")
    assert "holder-2" in page.locator(".map output").inner_text()
    nodes.press("Enter")
    past = page.locator("#node").get_by_role("region", name="Jobs that ran on this node")
    past.get_by_role("link", name="holder-2").wait_for()
    assert "node=" in page.url
    page.get_by_label("Colour of the map").select_option("health")
    page.locator(".map .legend").get_by_text("cordoned").wait_for()
    page.get_by_label("View of the nodes").select_option("cards")
    page.get_by_role("img", name="of 2 gpu in use").first.wait_for()
    assert "view=cards" in page.url


def test_a_finished_run_shows_its_course_and_its_ranks(visit: Callable[..., Visit]):
    page = visit().see("/jobs/lesson-1")
    page.get_by_role("heading", name="Busy time by rank").wait_for()
    assert page.locator(".chart canvas").count() >= 4
    assert page.locator("section", has_text="Ranks").locator("tbody tr").count() >= 2
    heat = page.get_by_role("img", name="Busy time of each rank over time")
    heat.focus()
    heat.press("ArrowRight")
    assert "rank 0" in page.locator(".heat output").inner_text()


def test_a_failed_job_shows_the_cause_its_evidence_and_the_next_command(visit: Callable[..., Visit]):
    page = visit().see("/jobs/overflow-5#findings")
    page.locator(".state.Failed").wait_for(timeout=30_000)
    findings = page.locator("#findings")
    findings.get_by_text("ran out of GPU memory: it asked for 20.00 GiB").wait_for(timeout=30_000)
    assert OVERFLOW in findings.locator(".evidence").inner_text()
    assert findings.locator(".command").inner_text().startswith("windlass ")
    assert page.locator("#attempts tbody tr").count() == 2
    assert "the same nodes" in page.locator("#attempts").inner_text()


def test_a_job_without_a_failure_has_no_findings(visit: Callable[..., Visit]):
    page = visit().see("/jobs/lesson-1")
    assert not page.locator("#findings").is_visible()


def test_checkpoints_and_lost_work_are_listed(visit: Callable[..., Visit]):
    signed_in = visit()
    page = signed_in.see("/jobs/lesson-1#checkpoints")
    saved = page.locator("#checkpoints").get_by_role("region", name="Checkpoints", exact=True)
    assert saved.locator("tbody tr").first.inner_text().split()[:2] == ["100", "complete"]
    page = signed_in.see("/jobs/overflow-5#checkpoints")
    page.locator("#checkpoints").get_by_role("heading", name="Lost work").wait_for(timeout=30_000)


def test_a_priority_changes_and_an_ended_job_runs_again(visit: Callable[..., Visit], daemon: Path):
    ok(daemon, "submit", "--name", "late", "-N", "4", "-G", "1", "--", "true")
    signed_in = visit("--allow-actions")
    page = signed_in.see("/queue?search=late")
    page.get_by_role("region", name="Running and waiting jobs").get_by_role("link", name="late").click()
    page.get_by_role("button", name="Priority").click()
    page.get_by_role("spinbutton", name="Priority").fill("")
    page.get_by_role("dialog").get_by_role("button", name="Change").click()
    assert page.get_by_role("dialog").is_visible()
    page.get_by_role("spinbutton", name="Priority").fill("7")
    page.get_by_role("dialog").get_by_role("button", name="Change").click()
    page.locator(".facts div", has_text="Priority").get_by_text("7").wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    page.locator(".state.Cancelled").wait_for()

    page = signed_in.see("/jobs/hostile-4")
    page.get_by_role("button", name="Run again").click()
    page.get_by_role("dialog").get_by_role("button", name="Run again").click()
    page.wait_for_url(lambda url: url.rpartition("-")[0].endswith("/hostile") and not url.endswith("-4"))


def test_a_simulation_of_the_live_jobs_is_started_and_shows_its_report(visit: Callable[..., Visit]):
    page = visit("--allow-actions").see("/simulator")
    page.get_by_label("Policies").fill("cluster,fifo")
    page.get_by_label("Nodes more or fewer").fill("2")
    page.get_by_role("button", name="Start").click()
    figures = page.get_by_role("region", name="Figures by policy")
    figures.wait_for(timeout=60_000)
    assert figures.get_by_role("columnheader").all_inner_texts() == ["Figure", "cluster", "fifo"]
    assert "on 4 nodes" in page.locator("#result").inner_text()
    page.locator("#result canvas").first.wait_for()
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save the whole report").click()
    assert Path(saved.value.path()).read_text().startswith("<!doctype html>")
    assert "extra_nodes=2" in page.url
    page.get_by_label("Policies").fill("nonsense")
    page.get_by_role("button", name="Start").click()
    page.get_by_text("It ended without a result").wait_for(timeout=60_000)


def test_a_reader_cannot_start_a_simulation(visit: Callable[..., Visit]):
    page = visit().see("/simulator")
    assert page.get_by_role("button", name="Start").is_disabled()
    assert "windlass ui --allow-actions" in page.locator("main").inner_text()


def test_changes_appear_without_a_reload(visit: Callable[..., Visit], daemon: Path):
    page = visit().see("/queue")
    page.evaluate("window.stays = true")
    ok(daemon, "submit", "--name", "newcomer", "-N", "4", "-G", "1", "--", "true")
    page.get_by_role("link", name="newcomer").wait_for(timeout=5_000)
    assert page.evaluate("window.stays")


def test_output_with_markup_is_text_and_can_be_searched(visit: Callable[..., Visit]):
    page = visit().see("/jobs/hostile-4")
    page.locator(".log .row").first.wait_for()
    assert HOSTILE in page.locator(".log").inner_text()
    page.get_by_role("searchbox", name="Search in the output").fill("onerror")
    assert page.locator(".log mark").inner_text() == "onerror"
    assert "taken" not in page.title()


def test_a_reader_has_no_buttons_and_an_actor_is_asked_first(visit: Callable[..., Visit], daemon: Path):
    ok(daemon, "submit", "--name", "victim", "-N", "4", "-G", "1", "--", "true")
    page = visit().see("/queue?search=victim")
    page.get_by_role("region", name="Running and waiting jobs").get_by_role("link", name="victim").click()
    page.get_by_text("Why it waits").wait_for()
    assert page.get_by_role("button", name="Cancel").count() == 0
    address = page.url.partition("/jobs/")[2]

    page = visit("--allow-actions").see(f"/jobs/{address}")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Keep it as it is").click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    page.locator(".state.Cancelled").wait_for()


def test_pages_that_were_left_are_freed(visit: Callable[..., Visit]):
    page = visit().see("/jobs/lesson-1")
    page.locator("#course canvas").first.wait_for()
    session = page.context.new_cdp_session(page)

    def counts() -> tuple[int, int]:
        page.wait_for_timeout(300)  # elements that leave the page are noticed with the next frame
        session.send("HeapProfiler.collectGarbage")
        found = session.send("Memory.getDOMCounters")
        return found["nodes"], found["jsEventListeners"]

    def go_round() -> None:
        for name, drawn in (("Overview", ".plot canvas"), ("Fair share", ".plot canvas"), ("Queue", "tbody tr")):
            page.get_by_role("navigation").get_by_role("link", name=name).click()
            page.locator(drawn).first.wait_for()

    go_round()
    go_round()
    nodes, listeners = counts()
    for _ in range(5):
        go_round()
    after = counts()
    assert after[0] < 1.2 * nodes
    assert after[1] < 1.2 * listeners


def test_keys_lead_through_the_pages(visit: Callable[..., Visit]):
    page = visit().see("/")
    page.keyboard.press("q")
    page.get_by_role("region", name="Running and waiting jobs").get_by_role("link", name="holder-2").wait_for()
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.getAttribute('href')").startswith("/jobs/")
    page.keyboard.press("?")
    assert page.get_by_role("dialog").is_visible()


def test_a_table_is_saved_as_csv(visit: Callable[..., Visit]):
    page = visit().see("/history")
    with page.expect_download() as saved:
        page.get_by_role("button", name="CSV").click()
    text = Path(saved.value.path()).read_text()
    assert text.startswith("Job,State,Exit,")
    row = next(line for line in text.splitlines() if line.startswith("lesson-1,Succeeded,0,"))
    assert re.search(r",\d{4}-\d\d-\d\dT[\d:.]+Z,\d{4}-\d\d-\d\dT[\d:.]+Z,[\d.]+,[\d.]+,1,", row)
    assert "Waited (s),Ran (s)" in text


def test_a_search_on_the_overview_finds_a_job_that_has_ended(visit: Callable[..., Visit]):
    signed_in = visit()
    page = signed_in.see("/")
    find = page.get_by_role("searchbox", name="Find a job")
    find.fill("overflow-5")
    find.press("Enter")
    page.wait_for_url("**/jobs/overflow-5")
    page.go_back()
    find = page.get_by_role("searchbox", name="Find a job")
    find.fill("nowhere")
    find.press("Enter")
    page.get_by_role("link", name="Look for nowhere among those that have ended.").click()
    page.wait_for_url("**/history?name=nowhere")
    signed_in.trouble.clear()  # the browser's note of the name that means no job


def test_a_page_that_cannot_be_loaded_leaves_the_page_and_its_address(visit: Callable[..., Visit]):
    signed_in = visit()
    page = signed_in.see("/nodes")
    page.route("**/pages/share.js", lambda route: route.abort())
    page.get_by_role("link", name="Fair share").click()
    page.get_by_role("alert").get_by_text("The page cannot be loaded: the server does not answer.").wait_for()
    assert page.url == f"{signed_in.base}/nodes"
    signed_in.trouble.clear()  # the browser's note of the request that failed
    assert page.goto(f"{signed_in.base}/nonsense").status == 404
    page.get_by_role("link", name="Overview").click()
    page.wait_for_selector("main[data-ready]")
    signed_in.trouble.clear()  # the browser's note of the status


def test_a_used_link_and_a_foreign_page_get_nothing(visit: Callable[..., Visit], browser: Any, daemon: Path):
    link = ok(daemon, "ui", "--no-browser").strip()
    base = link.partition("/login")[0]
    with browser.new_context() as stranger:
        assert stranger.request.get(f"{base}/api/queue").status == 401
        assert stranger.request.get(link).status == 200
    with browser.new_context() as late:
        assert late.request.get(link).status == 401


def test_a_second_run_has_the_environment_of_the_first_and_is_compared_with_it(
    visit: Callable[..., Visit], daemon: Path
):
    shell = {"TEAM": "vision", "HF_TOKEN": "of-the-shell"}
    words = ("sh", "-c", 'echo "team $TEAM, token ${HF_TOKEN:-missing}"')
    name = ok(daemon, "submit", "--name", "printer", "--cpus", "0", "--", *words, env=shell).strip()
    page = visit("--allow-actions").see(f"/jobs/{name}")
    page.locator(".log").get_by_text("team vision, token of-the-shell").wait_for(timeout=15_000)
    page.get_by_role("button", name="Run again").click()
    assert "It lacks HF_TOKEN" in page.get_by_role("dialog").inner_text()
    page.get_by_role("dialog").get_by_role("button", name="Run again").click()
    page.wait_for_url(lambda url: not url.endswith(name))
    page.locator(".log").get_by_text("team vision, token missing").wait_for(timeout=15_000)
    definition = page.locator("#definition")
    definition.get_by_text("The definitions are the same.").wait_for()
    definition.get_by_role("combobox", name="Job to compare with").fill("overflow-5")
    definition.get_by_role("combobox", name="Job to compare with").press("Enter")
    definition.get_by_role("cell", name="roles.0.command").wait_for()
    assert "compare=overflow-5" in page.url


def test_a_changed_priority_is_a_line_of_the_life(visit: Callable[..., Visit], daemon: Path):
    name = ok(daemon, "submit", "--name", "raised", "-N", "4", "-G", "1", "--", "true").strip()
    page = visit("--allow-actions").see(f"/jobs/{name}")
    page.get_by_role("button", name="Priority").click()
    page.get_by_role("spinbutton", name="Priority").fill("-3")
    page.get_by_role("dialog").get_by_role("button", name="Change").click()
    assert page.locator("#life .line", has_text="priority 0 → -3").locator("b").inner_text() == "Changed"
    ok(daemon, "cancel", name)


def test_the_focus_stays_while_the_page_changes(visit: Callable[..., Visit], daemon: Path):
    page = visit("--allow-actions").see("/jobs/holder-2")
    page.keyboard.press("a")
    focused = "document.activeElement.textContent"
    assert page.evaluate(focused) == "Priority"
    page.keyboard.press("Tab")
    page.wait_for_timeout(4_500)  # two versions of the state, with new durations
    assert page.evaluate(focused) == "Suspend"


def test_escape_closes_what_is_open(visit: Callable[..., Visit]):
    page = visit().see("/queue?why=waiter-3")
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text("Next and previous job").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")
    page.locator("#why").wait_for()
    page.keyboard.press("Escape")
    page.locator("#why").wait_for(state="hidden")
    page.keyboard.press("/")
    page.keyboard.type("q")
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    page.get_by_role("heading", name="Nodes", level=1).wait_for()


def test_filters_of_the_output_are_in_the_address(visit: Callable[..., Visit]):
    signed_in = visit()
    page = signed_in.see("/jobs/overflow-5")
    page.get_by_role("searchbox", name="Search in the output").fill("memory")
    page.locator(".log mark").first.wait_for()
    page.get_by_role("searchbox", name="Search in the output").fill("nomatchatall")
    page.get_by_role("status").get_by_text('contains "nomatchatall".').wait_for()
    page.get_by_role("searchbox", name="Search in the output").fill("memory")
    page.get_by_label("Attempt", exact=True).select_option("1")
    page.get_by_label("Rank", exact=True).select_option("0")
    again = signed_in.see(page.url.removeprefix(signed_in.base))
    again.locator(".log mark").first.wait_for()
    assert again.get_by_label("Attempt", exact=True).input_value() == "1"
    assert again.get_by_label("Rank", exact=True).input_value() == "0"


def test_control_characters_of_the_output_are_signs(visit: Callable[..., Visit], daemon: Path):
    text = r"\033]0;taken\007 \033[31mred\033[0m \342\200\256gnp.exe \001"
    name = ok(daemon, "submit", "--name", "signs", "--cpus", "0", "--", "printf", f"{text}\\n").strip()
    page = visit().see(f"/jobs/{name}")
    page.locator(".log").get_by_text("red").wait_for(timeout=15_000)
    assert page.locator(".log .row").first.inner_text().endswith("red \ufffdgnp.exe \ufffd")


def test_a_lost_stream_is_said_and_mended(visit: Callable[..., Visit], daemon: Path):
    signed_in = visit()
    page = signed_in.page
    page.route("**/api/stream", lambda route: route.abort())
    page.goto(f"{signed_in.base}/queue")
    page.locator("#live").get_by_text("connection lost, retrying").wait_for()
    name = ok(daemon, "submit", "--name", "meanwhile", "-N", "4", "-G", "1", "--", "true").strip()
    page.unroute("**/api/stream")
    page.locator("#live").get_by_text("live", exact=True).wait_for(timeout=15_000)
    page.locator("section").get_by_role("link", name=name).first.wait_for(timeout=5_000)
    signed_in.trouble.clear()  # the browser's notes of the requests that failed
    ok(daemon, "cancel", name)


def test_a_csv_of_the_queue_has_all_jobs(visit: Callable[..., Visit], daemon: Path):
    ok(daemon, "submit", "--name", "many", "--array", "0-149", "-N", "4", "-G", "1", "--", "true")
    page = visit().see("/queue?search=many")
    page.get_by_role("button", name="Show more").wait_for()
    with page.expect_download() as saved:
        page.get_by_role("button", name="CSV", exact=True).first.click()
    assert Path(saved.value.path()).read_text().count("\n") == 151
    ok(daemon, "cancel", "many")


def test_the_page_of_a_node_shows_its_use_over_time(visit: Callable[..., Visit]):
    page = visit().see("/nodes")
    page.get_by_role("img", name="Map of 2 nodes").press("Enter")
    page.locator("#node").get_by_role("img", name="Ranks on this node").locator("canvas").wait_for()


def test_rows_are_cards_on_a_phone(visit: Callable[..., Visit]):
    page = visit(width=390).see("/history")
    row = page.locator("tbody tr").first
    assert row.evaluate("row => getComputedStyle(row).display") == "flex"
    assert row.locator("td[data-title='Ended']").is_visible()

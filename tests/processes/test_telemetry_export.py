"""Export of telemetry from real daemons and jobs, to a receiver of OTLP and to a real Prometheus."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from otlp_receiver import OtlpReceiver, attributes, events, free_port, otlp_receiver
from terminal import facts, ok, phase, start_daemon, wait_for_end, windlass

from processes.prometheus.prometheus_server import prometheus

FAILS_ONCE = "[ -e {mark} ] || {{ touch {mark}; echo 'RuntimeError: CUDA out of memory' >&2; exit 3; }}; sleep {time}"
RECEIVES = ["--web.enable-remote-write-receiver"]
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


def failing_once(folder: Path, seconds: float) -> list[str]:
    return ["--restarts", "2", "--", "sh", "-c", FAILS_ONCE.format(mark=folder / "mark", time=seconds)]


def log_of(state: Path) -> str:
    return state.with_name(f"{state.name}.daemon").read_text()


def job_span(receiver: OtlpReceiver) -> Any:
    receiver.wait(lambda found: found.named("windlass.job"))
    (span,) = receiver.named("windlass.job")
    return span


def test_the_trace_of_a_job_has_its_wait_its_attempts_and_the_verdict_on_its_failure(state: Path, tmp_path: Path):
    with otlp_receiver() as receiver:
        pid = start_daemon(state, "--local-nodes", "1", OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint)
        job = ok(state, "submit", "--name", "lesson", *failing_once(tmp_path, 1)).strip()
        whole = job_span(receiver)
        ok(state, "down", "--yes")
        wait_for_end(pid)

    (wait,) = receiver.named("windlass.queue")
    first, second = sorted(receiver.named("windlass.attempt"), key=lambda span: span.start_time_unix_nano)
    assert {span.trace_id for span in receiver.spans} == {whole.trace_id}
    assert {span.parent_span_id for span in (wait, first, second)} == {whole.span_id}
    assert not whole.parent_span_id
    assert attributes(whole)["windlass.job.id"] == job
    assert attributes(whole)["windlass.job.phase"] == "Succeeded"
    assert attributes(first)["error.type"] == "ExitCode"
    assert first.status.message.endswith("exited with code 3")
    assert events(first) == ["running", "failure"]
    assert "ran out of GPU memory" in attributes(first.events[1])["windlass.verdict"]
    assert events(second) == ["running"]
    assert [name for name in events(whole) if name in ("submitted", "queued", "bound", "failure")] == [
        *("submitted", "queued", "bound", "failure", "bound"),
    ]
    assert second.end_time_unix_nano - second.start_time_unix_nano > 1e9
    assert whole.end_time_unix_nano == second.end_time_unix_nano
    assert receiver.resources[0]["service.name"] == "windlass"


def test_a_killed_daemon_neither_loses_nor_repeats_spans(state: Path, tmp_path: Path):
    with otlp_receiver() as receiver:
        exported = {ENDPOINT: receiver.endpoint}
        pid = start_daemon(state, "--local-nodes", "1", **exported)
        jobs = [
            ok(state, "submit", "--name", f"j{number}", "-G", "0", "--", "sleep", str(number)).strip()
            for number in range(1, 5)
        ]
        for _ in range(3):
            time.sleep(1.2)
            os.kill(pid, signal.SIGKILL)
            wait_for_end(pid)
            pid = start_daemon(state, "--local-nodes", "1", **exported)
        receiver.wait(lambda found: len(found.named("windlass.job")) >= len(jobs))
        ok(state, "down", "--yes")
        wait_for_end(pid)
    # a daemon that is killed between the receiver's answer and its own note sends the same span with the same id again
    spans = {span.SerializeToString(): span for span in receiver.spans}.values()
    named = Counter((attributes(span)["windlass.job.id"], span.name) for span in spans)
    assert named == {(job, name): 1 for job in jobs for name in ("windlass.job", "windlass.queue", "windlass.attempt")}
    assert len({span.span_id for span in spans}) == len(spans) == 12


def test_an_absent_receiver_costs_one_line_and_gets_everything_when_it_is_there(state: Path):
    port = free_port()
    pid = start_daemon(state, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"http://127.0.0.1:{port}/v1/traces")
    for name in ("a", "b"):
        phase(state, ok(state, "submit", "--name", name, "--", "true").strip(), "Succeeded")
    time.sleep(2.5)
    assert log_of(state).count("cannot be sent") == 1, log_of(state)
    with otlp_receiver(port) as receiver:
        receiver.wait(lambda found: len(found.named("windlass.job")) == 2)
        ok(state, "down", "--yes")
        wait_for_end(pid)
    assert "traces are sent to" in log_of(state)
    assert len(receiver.spans) == 6


def test_a_receiver_that_refuses_is_named_once_and_jobs_run(state: Path):
    with otlp_receiver() as receiver:
        receiver.status = 401
        ran = windlass(state, "run", "--", "sleep", "1", env={ENDPOINT: receiver.endpoint})
        assert ran.returncode == 0
        assert receiver.requests
    refused = [line for line in ran.stderr.splitlines() if "refuses" in line]
    assert len(refused) <= 2  # metrics and traces
    assert "traces cannot be sent" in ran.stderr, ran.stderr


def test_a_short_run_sends_its_trace_before_it_ends(state: Path):
    with otlp_receiver() as receiver:
        ran = windlass(state, "run", "--name", "short", "--", "true", env={ENDPOINT: receiver.endpoint})
        assert ran.returncode == 0, ran.stderr
        assert len(receiver.named("windlass.job")) == 1


def test_a_run_does_not_wait_for_an_absent_receiver(state: Path):
    began = time.monotonic()
    ran = windlass(state, "run", "--", "true", env={ENDPOINT: f"http://127.0.0.1:{free_port()}"})
    assert ran.returncode == 0
    assert time.monotonic() - began < 10
    assert ran.stderr.count("cannot be sent") <= 2


def test_metrics_have_names_of_the_conventions(state: Path):
    with otlp_receiver() as receiver:
        exported = {ENDPOINT: receiver.endpoint, "OTEL_METRIC_EXPORT_INTERVAL": "1000", "OTEL_TRACES_EXPORTER": "none"}
        exported["OTEL_EXPORTER_OTLP_HEADERS"] = "x-tenant=lab"
        exported["OTEL_EXPORTER_OTLP_COMPRESSION"] = "gzip"
        ran = windlass(state, "run", "--name", "lesson", "--", "sleep", "5", env=exported)
        assert ran.returncode == 0, ran.stderr
        assert receiver.headers["x-tenant"] == "lab"
        assert not receiver.spans
    (job,) = facts(state, "history")
    found = {metric.name: metric for metric in receiver.metrics}
    assert found["windlass.nodes"].gauge.data_points[0].as_double == 1
    assert found["system.memory.usage"].unit == "By"
    memory = attributes(found["system.memory.usage"].gauge.data_points[0])
    assert memory == {"host.name": "n1", "system.memory.state": "used"}
    assert attributes(found["windlass.job.attempt"].gauge.data_points[0]) == {"windlass.job.id": job["id"]}


def test_samples_of_an_ended_job_are_in_prometheus(state: Path, tmp_path: Path):
    with prometheus(tmp_path, lambda: b"", flags=RECEIVES) as server:
        written = {"WINDLASS_REMOTE_WRITE_URL": f"{server.address}/api/v1/write", "WINDLASS_REMOTE_WRITE_INTERVAL": "1"}
        ran = windlass(state, "run", "--name", "lesson", "--", "sleep", "6", env=written)
        assert ran.returncode == 0, ran.stderr
        assert "cannot be sent" not in ran.stderr
        (job,) = facts(state, "history")
        (counted,) = server.query(f'count_over_time(windlass_job_attempt{{job_id="{job["id"]}"}}[5m])')
        assert int(counted["value"][1]) >= 2
        (held,) = server.query('windlass_queue_running{queue="default"}')
        assert held["metric"]["job"] == "windlass"
        assert server.query('windlass_node_memory_used_bytes{node="n1"}')


def test_samples_wait_for_a_prometheus_that_comes_later(state: Path, tmp_path: Path):
    port = free_port()
    written = {"WINDLASS_REMOTE_WRITE_URL": f"http://127.0.0.1:{port}/api/v1/write"}
    pid = start_daemon(state, WINDLASS_REMOTE_WRITE_INTERVAL="1", **written)
    job = ok(state, "submit", "--name", "lesson", "--", "sleep", "5").strip()
    phase(state, job, "Succeeded")
    ended_at = time.time()
    with prometheus(tmp_path, lambda: b"", flags=RECEIVES, port=port) as server:
        sent = f'windlass_job_attempt{{job_id="{job}"}}'
        end = time.monotonic() + 60
        while not (found := server.query(f"timestamp({sent})")):
            assert time.monotonic() < end, log_of(state)
            time.sleep(0.2)
        assert float(found[0]["value"][1]) < ended_at
        (counted,) = server.query(f"count_over_time({sent}[5m])")
        assert int(counted["value"][1]) >= 2
        ok(state, "down", "--yes")
        wait_for_end(pid)
    assert log_of(state).count("cannot be sent") == 1, log_of(state)


def test_remote_write_authenticates_and_keeps_the_password_out_of_messages(state: Path, tmp_path: Path):
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    interval = {"WINDLASS_REMOTE_WRITE_INTERVAL": "0.5"}
    with otlp_receiver() as receiver:
        url = f"{receiver.endpoint}/api/v1/write"
        by_token = {"WINDLASS_REMOTE_WRITE_URL": url, "WINDLASS_REMOTE_WRITE_TOKEN_FILE": str(token), **interval}
        assert windlass(state, "run", "--", "sleep", "3", env=by_token).returncode == 0
        assert receiver.headers["Authorization"] == "Bearer s3cret"
        assert (receiver.headers["Content-Encoding"], receiver.headers["X-Prometheus-Remote-Write-Version"]) == (
            *("snappy", "0.1.0"),
        )
        receiver.status = 403
        by_user = {"WINDLASS_REMOTE_WRITE_URL": url.replace("//", "//ada:hidden@"), **interval}
        ran = windlass(state, "run", "--", "sleep", "3", env=by_user)
        assert receiver.headers["Authorization"] == "Basic YWRhOmhpZGRlbg=="
    assert ran.returncode == 0
    assert ran.stderr.count("it refuses samples with status 403") == 1
    assert "hidden" not in ran.stderr


@pytest.mark.parametrize("setting", [{"WINDLASS_REMOTE_WRITE_URL": "ftp://x"}, {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}])
def test_settings_that_cannot_be_used_are_said_with_the_way_out(state: Path, setting: dict[str, str]):
    ran = windlass(state, "run", "--", "sleep", "2", env={ENDPOINT: "http://127.0.0.1:1", **setting})
    assert ran.returncode == 0
    assert next(iter(setting)) in ran.stderr
    assert "http" in ran.stderr

"""Settings of the export of telemetry, all by variables: OpenTelemetry's own, and those of remote write. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

URL, TOKEN_FILE, INTERVAL = (
    "WINDLASS_REMOTE_WRITE_URL",
    "WINDLASS_REMOTE_WRITE_TOKEN_FILE",
    "WINDLASS_REMOTE_WRITE_INTERVAL",
)
LEVEL = "WINDLASS_METRICS_LEVEL"
_OTLP = "OTEL_EXPORTER_OTLP"
_OTLP_INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
_PROTOCOL = "http/protobuf"
_LEVELS = ("job", "rank")
_DEFAULT_OTLP_INTERVAL_S, _DEFAULT_INTERVAL_S = 60.0, 15.0
_MIN_INTERVAL_S, _MAX_INTERVAL_S = 0.1, 3_600.0


@dataclass(frozen=True, slots=True)
class RemoteWriteSettings:
    """Receiver of remote write. `token_file`: path of a bearer token, read again at each request; empty: none."""

    url: str
    token_file: str = ""
    interval_s: float = _DEFAULT_INTERVAL_S


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """Signals to export. The exporter of OpenTelemetry reads addresses, headers and certificates by itself."""

    metrics: bool = False
    """Whether metrics go out by OTLP."""
    traces: bool = False
    metrics_interval_s: float = _DEFAULT_OTLP_INTERVAL_S
    remote_write: RemoteWriteSettings | None = None
    ranks: bool = False
    """Whether the series of each rank are exported."""
    faults: tuple[str, ...] = ()
    """Sentences about variables that cannot be used; what they name is not exported."""

    @property
    def is_on(self) -> bool:
        """Whether anything is exported."""
        return self.metrics or self.traces or self.remote_write is not None


def read_export_settings(variables: Mapping[str, str]) -> ExportSettings:
    """The settings by environment variables. A variable that cannot be used is reported in `faults`."""
    faults: list[str] = []
    return ExportSettings(
        metrics=_is_signal_on(variables, "METRICS", faults),
        traces=_is_signal_on(variables, "TRACES", faults),
        metrics_interval_s=_seconds(variables, _OTLP_INTERVAL, _DEFAULT_OTLP_INTERVAL_S, 1e-3, faults),
        remote_write=_remote_write(variables, faults),
        ranks=_level(variables, faults) == "rank",
        faults=tuple(faults),
    )


def _is_signal_on(variables: Mapping[str, str], signal: str, faults: list[str]) -> bool:
    """Whether a signal has an address and is not switched off. Only OTLP/HTTP is spoken."""
    if not (variables.get(f"{_OTLP}_{signal}_ENDPOINT") or variables.get(f"{_OTLP}_ENDPOINT")):
        return False
    if variables.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if variables.get(f"OTEL_{signal}_EXPORTER", "otlp") not in ("otlp", ""):
        return False
    name = next((each for each in (f"{_OTLP}_{signal}_PROTOCOL", f"{_OTLP}_PROTOCOL") if variables.get(each)), "")
    if name and variables[name] != _PROTOCOL:
        faults.append(
            f"{signal.lower()} are not exported: {name} is {variables[name][:40]!r}, and only {_PROTOCOL} is spoken; "
            f"set {_OTLP}_{signal}_PROTOCOL={_PROTOCOL} and the address of that receiver"
        )
        return False
    return True


def _remote_write(variables: Mapping[str, str], faults: list[str]) -> RemoteWriteSettings | None:
    url = variables.get(URL, "")
    if not url:
        return None
    if not _is_http_url(url):
        faults.append(f"nothing is written remotely: {URL} is no URL; use http://HOST:PORT/api/v1/write")
        return None
    interval = _seconds(variables, INTERVAL, _DEFAULT_INTERVAL_S, 1.0, faults)
    return RemoteWriteSettings(url, variables.get(TOKEN_FILE, ""), interval)


def _is_http_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _seconds(variables: Mapping[str, str], name: str, default: float, unit: float, faults: list[str]) -> float:
    """A span in seconds. `unit`: seconds of one unit of the variable."""
    text = variables.get(name, "")
    if not text:
        return default
    try:
        seconds = float(text) * unit
    except ValueError:
        seconds = -1.0
    if not _MIN_INTERVAL_S <= seconds <= _MAX_INTERVAL_S:
        least, most = _MIN_INTERVAL_S / unit, _MAX_INTERVAL_S / unit
        faults.append(f"{name} is {text[:40]!r}, and is not used; name a number from {least:g} to {most:g}")
        return default
    return seconds


def _level(variables: Mapping[str, str], faults: list[str]) -> str:
    level = variables.get(LEVEL) or _LEVELS[0]
    if level not in _LEVELS:
        faults.append(f"{LEVEL} is {level[:40]!r}, and is not used; name {' or '.join(_LEVELS)}")
        return _LEVELS[0]
    return level

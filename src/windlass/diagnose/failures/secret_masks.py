"""Masks secrets in texts of reports: tokens, keys, passwords and credentials in addresses."""

from __future__ import annotations

import re

from windlass.jobs.secret_values import HIDDEN, hide_in_command

_TOKENS = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{8,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{16,}|xox[abprs]-[\w-]{10,}"
    r"|(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}|AIza[\w-]{30,}|ya29\.[\w.-]{20,}|npm_[A-Za-z0-9]{20,}|nvapi-[\w-]{16,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)"
)
_BEARER = re.compile(r"(?P<start>\b(?:bearer|basic|token|apikey) +)[A-Za-z0-9._~+/=-]{12,}", re.IGNORECASE)
_FIELD = re.compile(
    r"(?P<start>[\"']?[\w.-]*(?:secret|token|passw(?:or)?d|passphrase|credential|private[_-]?key|api[_-]?key|access[_-]?key"
    r"|wandb_key|authorization|signature)[\w.-]*[\"']?\s*[:=]\s*[\"']?)(?P<value>[^\s\"',;&}{\])]{6,})",
    re.IGNORECASE,
)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*")
_NOT_SECRET = re.compile(r"^(?:\d+(?:\.\d+)?|none|null|true|false|\*+|<\w+>|\[.*|\(.*)$", re.IGNORECASE)


def mask_secrets(text: str) -> str:
    """The text with `***` for every value that looks like a secret, or stands beside the name of one."""
    if not text:
        return text
    masked = hide_in_command([text])[0]
    masked = _PRIVATE_KEY.sub("-----BEGIN PRIVATE KEY----- " + HIDDEN, masked)
    masked = _BEARER.sub(lambda found: found["start"] + HIDDEN, _TOKENS.sub(HIDDEN, masked))
    return _FIELD.sub(_hide_field, masked)


def _hide_field(found: re.Match[str]) -> str:
    return found[0] if _NOT_SECRET.match(found["value"]) else found["start"] + HIDDEN

"""Masks secrets in texts of reports: tokens, keys, passwords and credentials in addresses."""

from __future__ import annotations

import re

from windlass.jobs.secret_values import HIDDEN, hide_in_command

_TOKENS = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{8,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{16,}|xox[abprs]-[\w-]{10,}"
    r"|(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}|AIza[\w-]{30,}|ya29\.[\w.-]{20,}|npm_[A-Za-z0-9]{20,}|nvapi-[\w-]{16,}"
    r"|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{8,}|pypi-[\w-]{16,}|dckr_[a-z]{2,4}_[\w-]{8,}|SG\.[\w-]{8,}(?:\.[\w-]*)?|hv[sbr]\.[\w-]{8,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)"
)
_BEARER = re.compile(r"(?P<start>\b(?:bearer|basic|token|apikey) +)[A-Za-z0-9._~+/=-]{12,}", re.IGNORECASE)
_NAME = (
    r"[\w.-]{0,60}(?:secret|token|passw(?:or)?d|passphrase|credential|private[_-]?key|api[_-]?key|access[_-]?key"
    r"|account[_-]?key|wandb_key|authorization|signature)[\w.-]{0,60}|[\w.-]{0,60}_PWD|PGPASS(?:WORD)?|pwd?|sig"
)
_QUOTED = re.compile(
    rf"(?P<start>(?<![\w.-])[\"']?(?:{_NAME})[\"']?\s{{0,8}}[:=]\s{{0,8}})(?P<quote>[\"'])(?P<value>(?:(?!(?P=quote)).){{1,4000}})(?P=quote)?",
    re.IGNORECASE,
)
_FIELD = re.compile(
    rf"(?P<start>(?<![\w.-])[\"']?(?:{_NAME})[\"']?\s{{0,8}}[:=]\s{{0,8}})(?P<value>[^\s\"',;&}}{{\])]{{3,}})",
    re.IGNORECASE,
)
_WORDS = re.compile(
    r"(?P<start>(?<![\w.-])(?:[\w.-]{0,60}(?:api[_-]?key|secret|token|access[_-]?key)(?: key)?"
    r"|passw(?:or)?d|passphrase|pw)"
    r"(?: is| was|:)? +[\"']?)(?P<value>[^\s\"',;]{6,})",
    re.IGNORECASE,
)
"""A name before its value, without a sign between: only values with a digit are secrets."""
_KEY = re.compile(r"(?P<start>\bkey(?: is)?:? +)(?P<value>[A-Za-z0-9+/=_-]{24,})", re.IGNORECASE)
_COMMAND = re.compile(
    r"(?P<start>\bsshpass +-p *|\bcurl\b.{0,200}? (?:-u|--user)[ =][^\s:]{1,80}:|\blogin +\S{1,80} +password +)"
    r"(?P<value>\"[^\"]*\"|'[^']*'|\S+)"
)
_URL = re.compile(
    r"(?P<start>\b[a-z][a-z0-9+.-]{1,20}://[^\s:@/]{0,80}:)(?P<value>\S{1,400})(?=@[\w\[])", re.IGNORECASE
)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*")
_NOT_SECRET = re.compile(r"^(?:\d+(?:\.\d+)?|none|null|true|false|\*+|<\w+>|\[.*|\(.*)$", re.IGNORECASE)
_RANDOM = re.compile(r"^(?=[^\s]*\d)[\w+/=.~-]+$")


def mask_secrets(text: str) -> str:
    """The text with `***` for every value that looks like a secret, or stands beside the name of one."""
    if not text:
        return text
    masked = _URL.sub(_hide, text)
    masked = hide_in_command([masked])[0]
    masked = _PRIVATE_KEY.sub("-----BEGIN PRIVATE KEY----- " + HIDDEN, masked)
    masked = _BEARER.sub(lambda found: found["start"] + HIDDEN, _TOKENS.sub(HIDDEN, masked))
    masked = _QUOTED.sub(lambda found: f"{found['start']}{found['quote']}{HIDDEN}{found['quote']}", masked)
    masked = _KEY.sub(_hide_random, _WORDS.sub(_hide_random, _COMMAND.sub(_hide, masked)))
    return _FIELD.sub(_hide, masked)


def _hide(found: re.Match[str]) -> str:
    return found[0] if _NOT_SECRET.match(found["value"]) else found["start"] + HIDDEN


def _hide_random(found: re.Match[str]) -> str:
    return _hide(found) if _RANDOM.match(found["value"]) else found[0]

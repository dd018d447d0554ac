"""Hides values that by their names are secrets, in all fields of a job that its user wrote."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from windlass import wire
from windlass.core.model.job import Job, Role

HIDDEN = "***"
"""Shown instead of a secret value."""
_SECRET_NAME = re.compile("secret|token|passw|passphrase|credential|private|api_?key|access_?key|auth", re.IGNORECASE)
_SECRET_WORDS = {
    "secret",
    "secrets",
    "token",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "credentials",
    "apikey",
}
_SECRET_KEYS = {"api", "access", "private", "secret", "encryption", "signing"}
"""Words that make a following `key` a secret."""
_VALUE = r"(?P<value>\"[^\"]*\"|'[^']*'|[^\s;&|'\"-][^\s;&|'\"]*)"
_ASSIGNMENT = re.compile(rf"(?<![\w.-])(?P<name>-{{0,2}}[A-Za-z_][\w.-]*)(?:=|:\s+){_VALUE}")
_OPTION = re.compile(rf"(?<![\w.-])(?P<name>--?[A-Za-z][\w.-]*)\s+{_VALUE}")
_URL_PASSWORD = re.compile(r"(?<![a-z0-9+.-])(?P<start>[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?=@)", re.IGNORECASE)


def hide_secrets(job: Job) -> Job:
    """The job with `HIDDEN` for every secret value in variables, commands and pod templates of its roles."""
    return replace(job, roles=tuple(_hide_in_role(role) for role in job.roles))


def is_secret_variable(name: str) -> bool:
    """Whether a variable holds a secret by its name. Rather one too many: its value is only not shown."""
    return bool(_SECRET_NAME.search(name))


def hide_in_command(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a command with values of secret options (`--api-key K`, `password=P`) and of URLs hidden."""
    shown, before = [], ""
    for word in words:
        is_value = _is_secret_option(before) and not word.startswith("-")
        shown.append(HIDDEN if is_value else _hide_in_text(word))
        before = word
    return tuple(shown)


def _hide_in_role(role: Role) -> Role:
    variables = {name: HIDDEN if is_secret_variable(name) else text for name, text in role.env.items()}
    if call := variables.get(wire.CALL):
        variables[wire.CALL] = _hide_in_call(call)
    return replace(role, env=variables, command=hide_in_command(role.command), pod=_hide_in_json(role.pod))


def _hide_in_call(text: str) -> str:
    """A call of a function or cell, as JSON: texts whose variables or arguments are secrets by their names.

    All of a call that is no JSON is hidden: no rank can read it either.
    """
    try:
        before = json.loads(text)
        shown = _hide_named_texts(before)
    except (ValueError, RecursionError):
        return HIDDEN
    return text if shown == before else json.dumps(shown)


def _hide_named_texts(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_hide_named_texts(each) for each in tree]
    if not isinstance(tree, Mapping):
        return tree
    return {
        name: HIDDEN if isinstance(value, str) and names_secret(name) else _hide_named_texts(value)
        for name, value in tree.items()
    }


def _hide_in_json(text: str) -> str:
    """A part of a pod template, as JSON: values of variables, commands and arguments."""
    before = json.loads(text) if text else None
    shown = _hide_in_tree(before)
    return text if shown == before else json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


def _hide_in_tree(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_hide_in_tree(each) for each in tree]
    if not isinstance(tree, Mapping):
        return tree
    return dict(_hide_in_fields(tree))


def _hide_in_fields(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    is_secret = isinstance(fields.get("name"), str) and is_secret_variable(fields["name"])
    for name, value in fields.items():
        if name == "value" and is_secret:
            yield name, HIDDEN
        elif name in ("command", "args") and isinstance(value, list) and all(isinstance(word, str) for word in value):
            yield name, list(hide_in_command(value))
        else:
            yield name, _hide_in_tree(value)


def _hide_in_text(text: str) -> str:
    """A word of a command, which may be a whole script for a shell."""
    text = _OPTION.sub(_hide_value, _ASSIGNMENT.sub(_hide_value, text))
    return _URL_PASSWORD.sub(lambda found: found["start"] + HIDDEN, text)


def _hide_value(found: re.Match[str]) -> str:
    return found[0].removesuffix(found["value"]) + HIDDEN if names_secret(found["name"]) else found[0]


def _is_secret_option(word: str) -> bool:
    return word.startswith("-") and not re.search(r"[=\s]", word) and names_secret(word)


def names_secret(name: str) -> bool:
    """Whether a name has a word for a secret: `--hf-token`, `AWS_SECRET_ACCESS_KEY`, and not `--max-tokens`."""
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]
    keys = (before in _SECRET_KEYS and word == "key" for before, word in itertools.pairwise(words))
    return any(word in _SECRET_WORDS for word in words) or any(keys)

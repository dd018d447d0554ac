"""The rule tables: every rule is complete, its own examples fire it, and no other family takes them for its own."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from windlass.diagnose.failures.collective_names import NAMELESS
from windlass.diagnose.failures.next_commands import WHERE_TO_FIND, fill_command
from windlass.diagnose.failures.signatures import every_signature
from windlass.diagnose.failures.verdict_texts import fill_text
from windlass.diagnose.rule_reference import rules_page

REPOSITORY = Path(__file__).resolve().parents[3]
FOLDER = REPOSITORY / "src" / "windlass" / "diagnose" / "rules"
TABLES = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.yaml"))}
RULES: dict[str, dict[str, Any]] = {rule["id"]: rule for table in TABLES.values() for rule in table}
FAMILY = {rule["id"]: family for family, table in TABLES.items() for rule in table}
CAUSES = yaml.safe_load((REPOSITORY / "tests/diagnosis/blind/causes.yaml").read_text(encoding="utf-8"))
KNOWN_CAUSES = {slug for family in CAUSES.values() for slug in family}
REQUIRED = {
    "id", "cause", "verdict", "signatures", "role", "scope", "certainty", "retry", "why", "fix", "source", "matches",
    "passes",
}  # fmt: skip
OPTIONAL = {"all", "at_end", "requires", "absent", "beats", "ends", "command", "decide", "others"}
ENGINE_NAMES = {"rank", "node", "distribution", "install"}
CERTAINTY = ("possible", "likely", "certain")
GENERIC = {"python-exception", "python-runtime-error"}  # they take every exception that no surer rule takes
ROOTS_OF_ANY_LINE = [id for id, rule in RULES.items() if rule["role"] == "root" and not rule.get("at_end")]
PATTERNS = {id: [re.compile(text) for text in rule["signatures"]] for id, rule in RULES.items()}

each_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)


def fires(id: str, line: str) -> bool:
    return any(pattern.search(line) for pattern in PATTERNS[id])


def fires_on_some(id: str, lines: list[str]) -> bool:
    """Whether the rule fires on one of the lines; where it needs all of its signatures, whether all do."""
    fired = [any(pattern.search(line) for line in lines) for pattern in PATTERNS[id]]
    return all(fired) if RULES[id].get("all") else any(fired)


def references(rule: dict[str, Any], *fields: str) -> set[str]:
    return {other for field in fields for other in rule.get(field, [])}


@each_rule
def test_a_rule_has_all_fields_and_no_others(rule: dict[str, Any]) -> None:
    assert REQUIRED <= set(rule) <= REQUIRED | OPTIONAL
    assert rule["role"] in {"root", "consequence", "hint"}
    assert rule["scope"] in {"rank", "node", "fabric", "job", "cluster"}
    assert rule["certainty"] in {"certain", "likely", "possible"}
    assert rule["retry"] in {"retry", "avoid-node", "stop"}
    assert rule["cause"] in KNOWN_CAUSES
    assert rule["source"].startswith("https://")
    assert all(rule[field] and isinstance(rule[field], str) for field in ("verdict", "why", "fix"))


@each_rule
def test_each_other_cause_of_a_message_is_known_and_has_what_decides(rule: dict[str, Any]) -> None:
    for other in rule.get("others", []):
        assert set(other) == {"cause", "text", "decide"}
        assert other["cause"] in KNOWN_CAUSES - {rule["cause"]}


@each_rule
def test_a_rule_refers_only_to_other_rules(rule: dict[str, Any]) -> None:
    others = references(rule, "requires", "absent", "beats", "ends")
    assert others <= set(RULES) - {rule["id"]}


@each_rule
def test_the_verdict_uses_only_groups_of_the_signatures(rule: dict[str, Any]) -> None:
    groups = {name for pattern in PATTERNS[rule["id"]] for name in pattern.groupindex}
    places = {name for place in re.findall(r"{([\w|]+)}", rule["verdict"]) for name in place.split("|")}
    collective = {"op"} if rule["id"] in NAMELESS else set()
    assert places <= groups | ENGINE_NAMES | {"detail"} | collective


@each_rule
def test_the_verdict_is_a_whole_sentence_whatever_its_signatures_capture(rule: dict[str, Any]) -> None:
    captured = [set(pattern.groupindex) for pattern in PATTERNS[rule["id"]]]
    known = [names for names in captured if names] if FAMILY[rule["id"]] == "flight" else [set(), *captured]
    for names in known:
        text = fill_text(rule["verdict"], dict.fromkeys(names - ENGINE_NAMES, "VALUE."), None, None)
        assert not re.search(r"unknown|[{}\[\]|]|\.\.|  |\w\(| [.,:;)]|[:,]$", text), text


@each_rule
def test_the_values_of_the_examples_stand_apart_from_the_words_around_them(rule: dict[str, Any]) -> None:
    found = [match for line in rule["matches"] for pattern in PATTERNS[rule["id"]] if (match := pattern.search(line))]
    for values in ({name: value for name, value in match.groupdict().items() if value} for match in found):
        for template in (rule["verdict"], rule["fix"]):
            text = fill_text(template, values, None, None)
            assert not re.search(r": :|:\.|a (?:rank|node)\w", text), text
            shown = [value for name, value in values.items() if re.search(rf"[{{|]{name}[}}|]", template)]
            assert [value for value in shown if is_joined(value.strip(" .:"), text)] == [], text


def is_joined(value: str, text: str) -> bool:
    """Whether a value stands in a text, and only as a part of longer words."""
    edges = r"(?<!\w)" * value[:1].isalnum(), r"(?!\w)" * value[-1:].isalnum()
    return len(value) > 1 and value in text and not re.search(edges[0] + re.escape(value) + edges[1], text)


@each_rule
def test_the_next_command_has_a_value_or_the_place_of_each_value(rule: dict[str, Any]) -> None:
    command = rule.get("command", "")
    groups = {name for pattern in PATTERNS[rule["id"]] for name in pattern.groupindex} | ENGINE_NAMES | {"log"}
    places = [place.split("|") for place in re.findall(r"{([\w|]+)}", command)]
    assert all(set(names) <= groups and last in WHERE_TO_FIND for *names, last in places)
    outside = re.sub(r"{[\w|]+}|'[^']*'|\"[^\"]*\"", "", command)
    assert not set(re.findall(r"\b[A-Z_]+\b", outside)) & (WHERE_TO_FIND.keys() | {"MASTER_ADDR", "MASTER_PORT"})
    filled = fill_command(command, dict.fromkeys(groups, "VALUE"), None, None)
    assert not re.search(r"{[\w|]+}|VALUE\w|\wVALUE", filled), filled


def test_a_command_takes_only_plain_words_of_a_log() -> None:
    command = "ss -ltnp 'sport = :{port|PORT}'"
    unknown = f"ss -ltnp 'sport = :PORT'  # PORT: {WHERE_TO_FIND['PORT']}"
    assert fill_command(command, {"port": "29777"}, None, None) == "ss -ltnp 'sport = :29777'"
    assert fill_command(command, {"port": "1'; reboot #"}, None, None) == unknown
    assert fill_command("ls {path|PATH}", {"path": "-rf"}, None, None).startswith("ls PATH  # PATH: ")
    assert (
        fill_command("windlass logs {job|JOB} --rank {rank|RANK}", {"job": "t"}, 3, None) == "windlass logs t --rank 3"
    )


BIND = "The server socket has failed to"


@pytest.mark.parametrize(
    ("rule", "line", "text", "command"),
    [
        (
            "rendezvous-port-in-use",
            f"{BIND} listen on any local network address. port: 29777, useIpv6: false, code: -98, name: EADDRINUSE",
            "the port 29777 that",
            "ss -ltnp 'sport = :29777'",
        ),
        (
            "rendezvous-port-in-use",
            f"[c10d] {BIND} bind to [::]:29777 (errno: 98 - Address already in use).",
            "the port 29777 that",
            "ss -ltnp 'sport = :29777'",
        ),
        (
            "rendezvous-refused",
            "The client socket has timed out after 60000ms while trying to connect to (127.0.0.1, 29999).",
            "The rendezvous address 127.0.0.1:29999 does",
            "nc -vz 127.0.0.1 29999",
        ),
        (
            "host-allocation-failed",
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4294967296 bytes.",
            "An allocation of 4294967296 bytes of host memory failed on a rank.",
            "ulimit -v; free -g; cat /sys/fs/cgroup/memory.max",
        ),
        (
            "executable-missing",
            'exec: "torchrun": executable file not found in $PATH: unknown',
            "executed: torchrun.",
            "command -v torchrun",
        ),
        (
            "rendezvous-dns",
            "The IPv4 network addresses of (train-master-0, 23456) cannot be retrieved (gai error: -2 - Unknown).",
            "host train-master-0 does",
            "getent hosts train-master-0",
        ),
    ],
    ids=["port", "bound port", "address", "bytes", "program", "host"],
)
def test_texts_and_commands_have_the_values_of_the_message(rule: str, line: str, text: str, command: str) -> None:
    found = next(match for pattern in PATTERNS[rule] if (match := pattern.search(line)))
    values = {name: value for name, value in found.groupdict().items() if value}
    assert text in fill_text(RULES[rule]["verdict"], values, None, None)
    assert fill_command(RULES[rule]["command"], values, None, None) == command


def test_a_value_that_the_text_does_not_name_is_its_detail_and_nothing_else() -> None:
    assert fill_text("It failed: {detail}.", {"other": "why"}, None, None) == "It failed: why."
    assert fill_text("It failed: {detail}.", {}, None, None) == "It failed."
    assert fill_text("Full[: {path}].", {"pid": "7"}, None, None) == "Full."
    assert fill_text("Rank {rank} called [{a|b} ]it.", {"b": "x"}, 3, None) == "Rank 3 called x it."


@each_rule
def test_each_example_line_fires_its_rule_and_no_other_line_does(rule: dict[str, Any]) -> None:
    assert rule["matches"]
    assert rule["passes"]
    assert [line for line in rule["matches"] if not fires(rule["id"], line)] == []
    assert [line for line in rule["passes"] if fires(rule["id"], line)] == []


@each_rule
def test_no_root_of_another_family_fires_on_the_examples(rule: dict[str, Any]) -> None:
    related = references(rule, "requires", "beats") | {
        id for id, other in RULES.items() if rule["id"] in references(other, "requires", "beats")
    }
    foreign = [id for id in ROOTS_OF_ANY_LINE if FAMILY[id] != FAMILY[rule["id"]]]
    taken = {id for id in foreign if fires_on_some(id, rule["matches"])}
    if rule["role"] != "root":
        taken -= {id for id in GENERIC if is_surer(rule, RULES[id])}
    assert taken <= related


def is_surer(rule: dict[str, Any], other: dict[str, Any]) -> bool:
    return CERTAINTY.index(rule["certainty"]) > CERTAINTY.index(other["certainty"])


def test_ids_are_unique_and_every_cause_has_a_rule() -> None:
    counts = Counter(rule["id"] for table in TABLES.values() for rule in table)
    assert max(counts.values()) == 1
    assert KNOWN_CAUSES - {rule["cause"] for rule in RULES.values()} == set()


def test_there_are_at_least_160_rules() -> None:
    assert len(RULES) >= 160


def test_no_rule_beats_itself_through_others() -> None:
    def beaten(id: str, seen: frozenset[str]) -> set[str]:
        return set().union(
            *({other} | beaten(other, seen | {other}) for other in references(RULES[id], "beats") - seen)
        )

    assert [id for id in RULES if id in beaten(id, frozenset())] == []


SCENARIOS = yaml.safe_load((Path(__file__).parent / "scenarios.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario["name"])
def test_a_rule_of_the_right_cause_fires_in_each_scenario(scenario: dict[str, Any]) -> None:
    lines = [line for log in scenario["logs"].values() for line in log]
    assert scenario["cause"] in {rule["cause"] for id, rule in RULES.items() for line in lines if fires(id, line)}


@pytest.mark.parametrize("prefix", ["2026-01-02T03:04:05.678Z ", "2026-01-02 03:04:05,678 ", "[rank3]: ", "  3: "])
def test_signatures_of_the_start_of_a_line_match_behind_prefixes(prefix: str) -> None:
    """The prefilter of the scan must not reject a line that a signature matches after its prefixes."""
    signatures = every_signature()
    lines = [line for rule in RULES.values() for line in rule["matches"] if signatures.matches(line.encode())]
    assert [line for line in lines if not signatures.may_match(f"{prefix}{line}".encode())] == []


def test_the_reference_page_lists_the_rules_of_today() -> None:
    page = REPOSITORY / "docs/reference/diagnosis-rules.md"
    assert page.read_text(encoding="utf-8") == rules_page(), "run docs/generate.py"


HEALTHY = (Path(__file__).parent / "healthy_lines.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("line", HEALTHY)
def test_no_root_takes_a_line_of_a_healthy_run(line: str) -> None:
    assert [id for id in ROOTS_OF_ANY_LINE if fires(id, line)] == []


def test_no_rule_on_an_image_that_does_not_fit_the_driver_avoids_a_node() -> None:
    image_causes = {"cuda-no-kernel-for-arch", "cuda-driver-too-old", "cuda-library-missing", "cuda-library-mismatch"}
    rules = [rule for rule in RULES.values() if rule["cause"] in image_causes]
    assert rules
    assert [rule["id"] for rule in rules if (rule["scope"], rule["retry"]) == ("node", "avoid-node")] == []

"""The tables of Xid, SXid and NCCL codes agree with the rules that tell them."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

PACKAGE = Path(__file__).resolve().parents[3] / "src" / "windlass" / "diagnose"
XID = yaml.safe_load((PACKAGE / "tables" / "xid.yaml").read_text(encoding="utf-8"))
SXID = yaml.safe_load((PACKAGE / "tables" / "sxid.yaml").read_text(encoding="utf-8"))
NCCL = yaml.safe_load((PACKAGE / "tables" / "nccl.yaml").read_text(encoding="utf-8"))
RULES: dict[str, dict[str, Any]] = {
    rule["id"]: rule
    for path in sorted((PACKAGE / "rules").glob("*.yaml"))
    for rule in yaml.safe_load(path.read_text(encoding="utf-8"))
}


def rules_on(line: str) -> set[str]:
    return {id for id, rule in RULES.items() if any(re.search(text, line) for text in rule["signatures"])}


@pytest.mark.parametrize("code", XID["codes"])
def test_the_line_of_an_xid_fires_only_the_rule_of_the_table(code: int) -> None:
    line = f"kernel: NVRM: Xid (PCI:0000:3b:00): {code}, pid=4711, name=python"
    assert rules_on(line) == {XID["codes"][code]["rule"]}


@pytest.mark.parametrize("code", XID["codes"])
def test_an_xid_that_needs_a_reset_keeps_jobs_off_the_node(code: int) -> None:
    entry = XID["codes"][code]
    rule = RULES[entry["rule"]]
    assert entry["action"] in {"ignore", "retry", "reset", "restart-host", "replace"}
    if entry["action"] in {"reset", "restart-host", "replace"}:
        assert (rule["role"], rule["retry"]) == ("root", "avoid-node")
    if entry["action"] == "ignore":
        assert rule["role"] != "root"


@pytest.mark.parametrize("code", SXID["codes"])
def test_an_sxid_is_a_root_if_it_is_fatal(code: int) -> None:
    fatal = SXID["codes"][code]["severity"] == "fatal"
    line = f"nvidia-nvswitch2: SXid (PCI:0000:c4:00.0): {code}, {'Fatal' if fatal else 'Non-fatal'}, Link 27"
    assert rules_on(line) == {"xid-nvlink" if fatal else "sxid-non-fatal"}


@pytest.mark.parametrize("code", [code for code, entry in NCCL["codes"].items() if entry["rule"]])
def test_the_name_of_an_nccl_result_fires_the_rule_of_the_table(code: int) -> None:
    """Rules that count only beside another one may fire as well."""
    entry = NCCL["codes"][code]
    fired = rules_on(f"{entry['name']}: see above")
    assert entry["rule"] in fired
    assert all(RULES[each].get("requires") for each in fired - {entry["rule"]})

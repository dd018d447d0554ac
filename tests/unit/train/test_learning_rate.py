"""A learning rate for another batch: on request only, and printed."""

import pytest

from windlass import train


@pytest.mark.parametrize(("rule", "found"), [("linear", 4e-3), ("sqrt", 2e-3)])
def test_a_learning_rate_is_scaled_and_printed(rule, found, capsys, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    assert train.scaled_lr(1e-3, batch=1024, reference=256, rule=rule) == pytest.approx(found)
    factor = f"{found / 1e-3:g}"
    assert capsys.readouterr().out == (
        f"learning rate 0.001 × {factor} = {found:g}: a batch of 1,024 samples instead of 256 ({rule})\n"
    )


def test_other_ranks_print_nothing(capsys, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    train.scaled_lr(1e-3, batch=512, reference=256)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch": 0, "reference": 8}, "batch=0 and reference=8 must be at least one sample"),
        ({"batch": 8, "reference": 8, "rule": "cubic"}, "rule='cubic': use linear or sqrt"),
    ],
)
def test_invalid_sizes_and_rules_are_refused(given, message):
    with pytest.raises(train.TrainError, match=message):
        train.scaled_lr(1e-3, **given)

"""Quantities are parsed exactly, formatted in the shortest way, and never overflow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.model.resources import (
    MAX_AMOUNT,
    QuantityError,
    add,
    format_bytes,
    format_quantity,
    format_readable,
    multiply,
    parse_quantity,
)


@pytest.mark.parametrize(
    ("resource", "text", "amount"),
    [
        ("cpu", "2", 2_000),
        ("cpu", "500m", 500),
        ("cpu", 1.5, 1_500),
        ("cpu", "0.0001", 1),  # rounds up: a request is never lost
        ("memory", "16Gi", 16 * 2**30),
        ("memory", "1.5G", 1_500_000_000),
        ("memory", "128974848", 128_974_848),
        ("gpu", "8", 8),
        ("gpu", "2.0", 2),
        ("nvidia.com/mig-1g.5gb", 3, 3),
    ],
)
def test_quantities_are_parsed_as_by_kubernetes(resource: str, text: str | float, amount: int) -> None:
    assert parse_quantity(resource, text) == amount


@pytest.mark.parametrize(
    ("resource", "text", "says"),
    [
        ("gpu", "1.5", "whole devices"),
        ("gpu", "500m", "whole devices"),
        ("memory", "16 giga", "write for example"),
        ("cpu", "-1", "write for example"),
        ("cpu", "two", "is no amount of cpu"),
        ("memory", "9" * 100, "is no amount of memory"),
        ("memory", "", "write for example"),
    ],
)
def test_an_unreadable_quantity_names_a_valid_one(resource: str, text: str, says: str) -> None:
    with pytest.raises(QuantityError, match=says):
        parse_quantity(resource, text)


def test_excessive_amounts_saturate() -> None:
    assert parse_quantity("memory", "900Ei") == MAX_AMOUNT
    assert multiply({"memory": MAX_AMOUNT}, 1_000) == {"memory": MAX_AMOUNT}
    assert add({"cpu": MAX_AMOUNT}, {"cpu": 1, "gpu": 2}) == {"cpu": MAX_AMOUNT, "gpu": 2}


@given(st.sampled_from(["cpu", "memory", "gpu"]), st.integers(0, MAX_AMOUNT))
def test_a_written_quantity_reads_back(resource: str, amount: int) -> None:
    assert parse_quantity(resource, format_quantity(resource, amount)) == amount


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0"),
        (1_023, "1023"),
        (16 << 30, "16Gi"),
        (3 << 29, "1.5Gi"),
        (1_500 << 20, "1500Mi"),
        (263_846_912 << 10, "251.6Gi"),  # a node's memory, as its kubelet reports it
        ((16 << 30) - 1, "15.99Gi"),
        (2_000 << 40, "2000Ti"),
    ],
)
def test_amounts_for_people_have_at_most_four_digits(amount: int, text: str) -> None:
    assert format_readable("memory", amount) == text


def test_no_amount_for_people_is_larger_than_it_is() -> None:
    for amount in range((1 << 30) - 3, (1 << 40), 977_777_777):
        assert parse_quantity("memory", format_readable("memory", amount)) <= amount


@pytest.mark.parametrize("resource", ["memory", "ephemeral-storage", "hugepages-2Mi"])
def test_amounts_counted_in_bytes_are_written_so(resource: str) -> None:
    assert format_quantity(resource, 3 * 2**30) == "3Gi"


def test_a_size_has_three_digits_and_a_binary_suffix():
    sizes = (8, 1020, 1024, 1500, 1048572, 2**28, 1.5e9, 2**50, -2048)
    shown = ["8 B", "1020 B", "1 KiB", "1.46 KiB", "1 MiB", "256 MiB", "1.4 GiB", "1 PiB", "-2 KiB"]
    assert [format_bytes(size) for size in sizes] == shown

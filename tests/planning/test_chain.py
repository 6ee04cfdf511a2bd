"""Chains refuse quantities that cannot be, and say which."""

import pytest

from ckptlab.errors import ChainError
from ckptlab.planning.chain import Chain, Stage


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), None, "3", True])
@pytest.mark.parametrize(
    "key", ["output_bytes", "saved_bytes", "forward_seconds", "backward_extra_bytes"]
)
def test_impossible_quantity_is_told_with_stage_key_and_value(
    key: str, wrong: object
) -> None:
    values = {
        "output_bytes": 1,
        "saved_bytes": 1,
        "forward_seconds": 1,
        "backward_seconds": 1,
    }
    with pytest.raises(ChainError) as caught:
        Stage("attention", **{**values, key: wrong})  # type: ignore[arg-type]
    kind = "whole" if key.endswith("bytes") else "finite"
    for part in ("'attention'", key, repr(wrong), f"{kind} number from 0 up"):
        assert part in str(caught.value)


def test_part_of_a_byte_is_refused() -> None:
    with pytest.raises(ChainError, match=r"output_bytes is 1\.5; it must be a whole"):
        Stage("a", 1.5, 2, 1, 1)  # type: ignore[arg-type]


def test_saved_bytes_include_the_output() -> None:
    with pytest.raises(ChainError, match="saved_bytes 3 is less than output_bytes 4"):
        Stage("a", 4, 3, 1, 1)
    with pytest.raises(ChainError, match="skipped_seconds 2 are more than forward_se"):
        Stage("a", 4, 4, 1, 1, skipped_seconds=2)


def test_empty_chain_and_strangers_in_it_are_refused() -> None:
    with pytest.raises(ChainError, match="at least one stage"):
        Chain([], input_bytes=1)
    with pytest.raises(ChainError, match="'conv' is str, not a Stage"):
        Chain(["conv"], input_bytes=1)  # type: ignore[list-item]
    with pytest.raises(ChainError, match="n_stages is 0"):
        Chain.uniform(0)


def test_equal_chains_are_equal_and_hash_alike() -> None:
    assert Chain.uniform(3) == Chain.uniform(3)
    assert hash(Chain.uniform(3)) == hash(Chain.uniform(3))
    assert Chain.uniform(3) != Chain.uniform(4)


def test_repr_shows_units() -> None:
    stage = Stage("conv", 2**20, 3 * 2**20, 0.001, 0.002)
    assert repr(stage) == (
        "Stage('conv', output 1 MiB, saved 3 MiB, forward 1 ms, backward 2 ms)"
    )

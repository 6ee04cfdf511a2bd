"""Quantities to text and back: laws, and the texts that learners really type."""

import math
import re
import time
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ckptlab.errors import UnitError
from ckptlab.units import (
    format_bytes,
    format_flops,
    format_seconds,
    parse_bytes,
    parse_flops,
    parse_seconds,
)

Format = Callable[[float], str]
Parse = Callable[[object], float]

law = settings(derandomize=True, deadline=None)
PARSERS = [parse_bytes, parse_seconds, parse_flops]
FORMATTERS = [format_bytes, format_seconds, format_flops]

BYTES = {
    "B": 1,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
    "PiB": 2**50,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "PB": 10**15,
}
BINARY = [unit for unit in BYTES if unit == "B" or unit.endswith("iB")]
SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600}
FLOPS = {
    "FLOPs": 1,
    "kFLOPs": 1e3,
    "MFLOPs": 1e6,
    "GFLOPs": 1e9,
    "TFLOPs": 1e12,
    "PFLOPs": 1e15,
    "EFLOPs": 1e18,
    "ZFLOPs": 1e21,
    "YFLOPs": 1e24,
}
EVERY_UNIT = [
    (parse, unit, scale)
    for parse, units in zip(PARSERS, (BYTES, SECONDS, FLOPS), strict=True)
    for unit, scale in units.items()
]


# -- there and back -----------------------------------------------------------------


@law
@given(st.integers(0, 2**100))
def test_bytes_come_back_within_half_a_percent(n_bytes: int) -> None:
    assert abs(parse_bytes(format_bytes(n_bytes)) - n_bytes) <= 0.005 * n_bytes


@law
@given(st.just(0.0) | st.floats(1e-12, 1e15))
def test_seconds_come_back_within_half_a_percent(seconds: float) -> None:
    assert parse_seconds(format_seconds(seconds)) == pytest.approx(seconds, rel=0.005)


@law
@given(st.just(0.0) | st.floats(1e-3, 1e40))
def test_flops_come_back_within_half_a_percent(n_flops: float) -> None:
    assert parse_flops(format_flops(n_flops)) == pytest.approx(n_flops, rel=0.005)


@law
@given(st.integers(0, 100_000), st.sampled_from(sorted(BYTES)))
def test_whole_multiples_of_a_unit_are_read_exactly(n: int, unit: str) -> None:
    assert parse_bytes(f"{n} {unit}") == n * BYTES[unit]


@law
@given(st.integers(1, 999), st.sampled_from(BINARY))
def test_up_to_999_of_a_unit_are_written_digit_by_digit(n: int, unit: str) -> None:
    assert format_bytes(n * BYTES[unit]) == f"{n} {unit}"


@pytest.mark.parametrize(("parse", "unit", "scale"), EVERY_UNIT)
def test_every_unit_has_its_scale(parse: Parse, unit: str, scale: float) -> None:
    assert parse(f"7 {unit}") == pytest.approx(7 * scale, rel=1e-15)


@pytest.mark.parametrize(("parse", "unit", "scale"), EVERY_UNIT)
def test_case_of_a_unit_does_not_matter(parse: Parse, unit: str, scale: float) -> None:
    assert parse(f"7 {unit.lower()}") == parse(f"7 {unit}")
    if unit != "µs":  # the capital of µ is another letter
        assert parse(f"7 {unit.upper()}") == parse(f"7 {unit}")


def test_decimal_and_binary_units_differ() -> None:
    assert parse_bytes("1 MB") == 1_000_000
    assert parse_bytes("1 MiB") == 1_048_576
    assert parse_bytes("80 GB") == 80_000_000_000


@pytest.mark.parametrize("parse", PARSERS)
def test_numbers_are_in_the_base_unit_already(parse: Parse) -> None:
    assert parse(512) == parse(512.0) == parse("512") == 512


def test_part_of_a_byte_is_rounded_to_bytes() -> None:
    assert parse_bytes(1.6) == 2
    assert isinstance(parse_bytes("0.5 KiB"), int)


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("64MiB", 2**26),
        ("  64   MiB\n", 2**26),
        ("+1.5 KiB", 1536),
        (".5 KiB", 512),
        ("2. KiB", 2048),
        ("1e3 kB", 10**6),
        ("1,048,576", 2**20),
        ("1_000 B", 1000),
        ("0", 0),
        ("-0", 0),
    ],
)
def test_usual_ways_of_writing_a_number_are_read(text: str, n_bytes: int) -> None:
    assert parse_bytes(text) == n_bytes


# -- the text ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("show", "value", "text"),
    [
        (format_bytes, 1023, "1023 B"),
        (format_bytes, 1023.9, "1 KiB"),
        (format_bytes, 1023 * 2**10, "1023 KiB"),
        (format_bytes, 1023.999 * 2**10, "1 MiB"),
        (format_bytes, 1023.999 * 2**40, "1 PiB"),
        (format_bytes, 99.99 * 2**20, "100 MiB"),
        (format_seconds, 999.9e-9, "1 µs"),
        (format_seconds, 0.9996, "1 s"),
        (format_seconds, 59.99, "1 min"),
        (format_seconds, 3599, "1 h"),
        (format_flops, 999.9e9, "1 TFLOPs"),
        (format_flops, 999.4e9, "999 GFLOPs"),
    ],
)
def test_rounding_up_to_a_unit_is_written_in_that_unit(
    show: Format, value: float, text: str
) -> None:
    assert show(value) == text


@law
@given(st.integers(0, 2**59))
def test_a_number_never_reaches_the_next_unit(n_bytes: int) -> None:
    number, unit = format_bytes(n_bytes).split()
    assert float(number) < 1024
    assert unit == "B" or float(number) >= 1


@law
@given(st.floats(0, 1e30))
def test_texts_are_short_and_without_exponent(value: float) -> None:
    for show in FORMATTERS:
        assert re.fullmatch(r"\d+(\.\d*[1-9])? \S+", show(value))


@pytest.mark.parametrize(
    ("show", "value", "text"),
    [
        (format_bytes, 2**80, "1073741824 PiB"),
        (format_flops, 1e30, "1000000 YFLOPs"),
        (format_bytes, 0.5, "0.5 B"),
        (format_seconds, 1.5e-12, "0.0015 ns"),
        (format_seconds, 0, "0 ns"),
        (format_bytes, -1536, "-1.5 KiB"),
    ],
)
def test_huge_tiny_and_negative_values_have_a_text(
    show: Format, value: float, text: str
) -> None:
    assert show(value) == text


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("show", FORMATTERS)
def test_what_is_not_finite_has_no_text(show: Format, value: float) -> None:
    with pytest.raises(UnitError, match=f"{value} has no text .* finite"):
        show(value)


# -- refusals ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        *["64 apples", "", "  ", "MiB", "64 MiB MiB", "6 4 MiB", "1.2.3", "0x10"],
        *["nan", "inf", "e5", "64 M", b"64 MiB", None, True, [64], {"MiB": 64}, 64j],
    ],
    ids=repr,
)
@pytest.mark.parametrize("parse", PARSERS)
def test_what_is_no_quantity_is_refused_with_a_sample_that_works(
    parse: Parse, wrong: object
) -> None:
    with pytest.raises(UnitError) as caught:
        parse(wrong)
    message = str(caught.value)
    assert message.startswith(f"{wrong!r} is ")
    assert "\n" not in message
    sample = re.findall(r"such as '([^']+)'", message)[-1]
    assert parse(sample) > 0


@pytest.mark.parametrize(
    "wrong",
    [-1, -0.5, "-64", "-1e-9", math.nan, math.inf, -math.inf, "1e999"],
    ids=repr,
)
@pytest.mark.parametrize("parse", PARSERS)
def test_what_is_negative_or_not_finite_is_refused_with_the_limit(
    parse: Parse, wrong: object
) -> None:
    with pytest.raises(UnitError, match="finite and at least 0") as caught:
        parse(wrong)
    assert repr(wrong) in str(caught.value)


@pytest.mark.parametrize(
    ("parse", "foreign"),
    [(parse_bytes, "3 ms"), (parse_seconds, "3 MiB"), (parse_flops, "3 MB")],
)
def test_units_of_another_quantity_are_refused(parse: Parse, foreign: str) -> None:
    with pytest.raises(UnitError, match=foreign):
        parse(foreign)


@law
@given(st.text(max_size=20) | st.text("1_,.e-Bs", max_size=6))
@example("1_")
@example("1e-")
def test_any_text_is_a_quantity_or_a_unit_error(text: str) -> None:
    for parse in PARSERS:
        try:
            value = parse(text)
        except UnitError:
            continue
        assert value >= 0
        assert math.isfinite(value)


@pytest.mark.parametrize(
    "text", ["1,5 GB", "1,0000 B", "12,34 MiB", ",5 B", "1,,000 B"]
)
def test_comma_that_groups_no_thousands_is_refused(text: str) -> None:
    with pytest.raises(UnitError, match="with a point for decimals"):
        parse_bytes(text)


def test_commas_may_group_thousands() -> None:
    assert parse_bytes("1,234,567 B") == 1_234_567


@pytest.mark.parametrize(
    "text", ["1" * 100_000 + " x y", "1,000" * 20_000, " " * 99_999], ids=len
)
def test_reading_takes_linear_time_in_what_is_pasted(text: str) -> None:
    start = time.perf_counter()
    with pytest.raises(UnitError):
        parse_bytes(text)
    assert time.perf_counter() - start < 1

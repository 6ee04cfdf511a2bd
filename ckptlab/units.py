"""Bytes, seconds and FLOPs to text and back.

Memory is binary (1 KiB = 1024 B), as allocators count it; decimal units (kB, MB,
GB) are read too, so that a graphics card's "80 GB" means what is printed on it.
Time and FLOPs are decimal. Texts carry three significant digits: `parse_*`
gives back what `format_*` was given to within half a percent.
"""

import math
import re

from ckptlab.errors import UnitError

_BINARY = {
    name: 1024**power for power, name in enumerate("B KiB MiB GiB TiB PiB".split())
}
_DECIMAL = {name: 1000**power for power, name in enumerate("B kB MB GB TB PB".split())}
_SECONDS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_FLOPS = {
    f"{prefix}FLOPs": 1000.0**power
    for power, prefix in enumerate(["", "k", "M", "G", "T", "P", "E", "Z", "Y"])
}
# commas group thousands only: "1,5" may be meant as 1.5, so it is refused. Possessive
# quantifiers keep the match linear in whatever is pasted.
_QUANTITY = re.compile(
    r"\s*+([+-]?(?:(?:\d{1,3}(?:,\d{3})++|\d[\d_]*+)(?:\.\d*+)?+|\.\d++)(?:e[+-]?\d++)?)"
    r"\s*+(\S*+)\s*+",
    re.I,
)


def format_bytes(n_bytes: float) -> str:
    """Text of an amount of memory, in binary units.

    Example:
        >>> format_bytes(64 * 2**20), format_bytes(1536), format_bytes(0)
        ('64 MiB', '1.5 KiB', '0 B')
    """
    return _format(n_bytes, _BINARY)


def parse_bytes(amount: str | int | float) -> int:
    """Bytes in a text such as "64 MiB", "80 GB" or "512"; a number is bytes already.

    Raises:
        UnitError: not an amount of memory, negative, or not finite.

    Example:
        >>> parse_bytes("64 MiB"), parse_bytes("1.5 GB"), parse_bytes(512)
        (67108864, 1500000000, 512)
    """
    units = {**_BINARY, **_DECIMAL, "bytes": 1, "byte": 1}
    return round(
        _parse(amount, units, default="B", kind="an amount of memory", sample="64 MiB")
    )


def format_seconds(seconds: float) -> str:
    """Text of a duration.

    Example:
        >>> format_seconds(0.0123), format_seconds(90)
        ('12.3 ms', '1.5 min')
    """
    return _format(seconds, _SECONDS)


def parse_seconds(duration: str | int | float) -> float:
    """Seconds in a text such as "12 ms" or "1.5 min"; a number is seconds already.

    Raises:
        UnitError: not a duration, negative, or not finite.

    Example:
        >>> parse_seconds("250 ms")
        0.25
    """
    units = {
        **_SECONDS,
        "us": 1e-6,
        "μs": 1e-6,
        "sec": 1.0,
        "hours": 3600.0,
        "hour": 3600.0,
    }
    return _parse(duration, units, default="s", kind="a duration", sample="12 ms")


def format_flops(n_flops: float) -> str:
    """Text of a count of floating-point operations.

    Example:
        >>> format_flops(2.5e12)
        '2.5 TFLOPs'
    """
    return _format(n_flops, _FLOPS)


def parse_flops(amount: str | int | float) -> float:
    """Operations in a text such as "2.5 TFLOPs"; a number is FLOPs already.

    Raises:
        UnitError: not a count of operations, negative, or not finite.

    Example:
        >>> parse_flops("2.5 TFLOPs")
        2500000000000.0
    """
    return _parse(
        amount, _FLOPS, default="FLOPs", kind="a number of FLOPs", sample="2.5 TFLOPs"
    )


def parse_number(number: str | int | float) -> float:
    """A bare number in a text such as "2.5" or "1,000"; a number is one already.

    Raises:
        UnitError: not a number, negative, or not finite.

    Example:
        >>> parse_number("1,000"), parse_number(2.5)
        (1000.0, 2.5)
    """
    return float(_parse(number, {"": 1.0}, default="", kind="a number", sample="2.5"))


def _format(value: float, units: dict[str, float] | dict[str, int]) -> str:
    if not -math.inf < value < math.inf:
        raise UnitError(
            f"{value} has no text in {'/'.join(units)}; give a finite number"
        )
    sign, size = ("-" if value < 0 else ""), abs(value)
    fitting = [name for name, scale in units.items() if size >= scale]
    name = fitting[-1] if fitting else next(iter(units))
    digits = _three_digits(size / units[name])
    # 1023.9 KiB rounds to 1024, which the next unit says better
    larger = list(units)[list(units).index(name) + 1 :]
    if larger and float(digits) * units[name] >= units[larger[0]]:
        name = larger[0]
        digits = _three_digits(float(digits) * units[fitting[-1]] / units[name])
    return f"{sign}{digits} {name}"


def _three_digits(number: float) -> str:
    if number >= 100:
        return f"{number:.0f}"
    text = f"{number:.3g}"
    return f"{float(text):f}".rstrip("0").rstrip(".") if "e" in text else text


def _parse(
    amount: str | int | float,
    units: dict[str, float] | dict[str, int],
    *,
    default: str,
    kind: str,
    sample: str,
) -> float:
    if isinstance(amount, str):
        match = _QUANTITY.fullmatch(amount)
        unit = _find_unit(match[2] or default, units) if match else None
        if match is None or unit is None:
            raise UnitError(
                f"{amount!r} is not {kind}; write one such as {sample!r}, with a point "
                f"for decimals{' (units: ' + ', '.join(units) + ')' if default else ''}"
            )
        value = float(match[1].replace(",", "").replace("_", "")) * units[unit]
    elif isinstance(amount, (int, float)) and not isinstance(amount, bool):
        value = float(amount) if isinstance(amount, float) else amount
    else:
        raise UnitError(
            f"{amount!r} is {type(amount).__name__}, not {kind}; "
            f"give a number or a text such as {sample!r}"
        )
    if not 0 <= value < math.inf:
        raise UnitError(
            f"{amount!r} is not {kind}: it must be finite and at least 0, such as "
            f"{sample!r}"
        )
    return value


def _find_unit(text: str, units: dict[str, float] | dict[str, int]) -> str | None:
    """The unit that `text` names; case matters only where two units differ by it."""
    if text in units:
        return text
    matches = [name for name in units if name.lower() == text.lower()]
    return matches[0] if len(matches) == 1 else None

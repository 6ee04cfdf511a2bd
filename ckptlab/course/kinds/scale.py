"""The positions of a slider, from low to high.

low, high                     its ends, in the question's unit
scale = "ratio"               each step multiplies; or "difference": each step adds
steps = 40                    how many steps there are from low to high
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import Any, Self

from ckptlab.course.toml_table import Table


@dataclass(frozen=True)
class Scale:
    """A slider's ends and steps."""

    low: float
    high: float
    scale: str
    steps: int

    @classmethod
    def load(cls, table: Table) -> Self:
        """Read its four keys.

        Raises:
            QuestionError: an end or the number of steps makes no sense.
        """
        low, high = table.number("low"), table.number("high")
        scale = table.one_of("scale", ("ratio", "difference"), default="ratio")
        if not (low > 0 if scale == "ratio" else low >= 0) or not low < high:
            raise table.fault(
                "low",
                f"is {low}, and high is {high}; low must be smaller, and above 0 "
                "where each step multiplies",
            )
        steps = table.number("steps", default=40)
        if steps not in range(2, 501):
            raise table.fault("steps", f"is {steps}; write a whole number, 2 to 500")
        return cls(low, high, scale, int(steps))

    @property
    def positions(self) -> list[float]:
        """Values from low to high, rounded to three digits between the ends."""
        shares = [step / self.steps for step in range(1, self.steps)]
        if self.scale == "ratio":
            inner = [self.low * (self.high / self.low) ** share for share in shares]
        else:
            inner = [self.low + (self.high - self.low) * share for share in shares]
        rounded = (float(f"{value:.3g}") for value in inner)
        held = (min(max(value, self.low), self.high) for value in rounded)
        return [self.low, *held, self.high]

    def share(self, value: float) -> float:
        """How far along the slider a value is, 0 at the low end and 1 at the high."""
        held = min(max(value, self.low), self.high)
        if self.scale == "ratio":
            return log(held / self.low) / log(self.high / self.low)
        return (held - self.low) / (self.high - self.low)

    def form(self, show: Callable[[float], str]) -> dict[str, Any]:
        """What the browser needs: the positions, and a text for each."""
        positions = self.positions
        return {"positions": positions, "texts": [show(value) for value in positions]}

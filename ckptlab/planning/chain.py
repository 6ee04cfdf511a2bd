"""What is computed: a chain of stages with bytes and seconds, measured or assumed.

A chain is the model as planning sees it: stages in a row, each fed by the one
before. It knows nothing of tensors; `memory.profile` measures one from a model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import inf

from ckptlab.errors import ChainError
from ckptlab.units import format_bytes, format_seconds


@dataclass(frozen=True)
class Stage:
    """One stage of a chain.

    Attributes:
        name: for people.
        output_bytes: of its output.
        saved_bytes: everything autograd keeps for it, its output included, its
            input not.
        forward_seconds, backward_seconds: of one run.
        forward_extra_bytes, backward_extra_bytes: transient bytes above that,
            while the pass runs.
        skipped_seconds: of the forward pass, after the last tensor that autograd
            saves. Recomputation that ends with this stage stops before them.

    Raises:
        ChainError: bytes are not a whole number from 0 up, seconds are negative or
            not finite, saved_bytes is less than output_bytes, or skipped_seconds are
            more than forward_seconds.
    """

    name: str
    output_bytes: int
    saved_bytes: int
    forward_seconds: float
    backward_seconds: float
    forward_extra_bytes: int = 0
    backward_extra_bytes: int = 0
    skipped_seconds: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self)[1:]:
            _check_quantity(
                f"stage {self.name!r}: {field.name}", getattr(self, field.name)
            )
        if self.saved_bytes < self.output_bytes:
            raise ChainError(
                f"stage {self.name!r}: saved_bytes {self.saved_bytes} is less than "
                f"output_bytes {self.output_bytes}; the output counts as saved"
            )
        if self.skipped_seconds > self.forward_seconds:
            raise ChainError(
                f"stage {self.name!r}: skipped_seconds {self.skipped_seconds} are more "
                f"than forward_seconds {self.forward_seconds}, of which they are a part"
            )

    def __repr__(self) -> str:
        return (
            f"Stage({self.name!r}, output {format_bytes(self.output_bytes)}, "
            f"saved {format_bytes(self.saved_bytes)}, "
            f"forward {format_seconds(self.forward_seconds)}, "
            f"backward {format_seconds(self.backward_seconds)})"
        )


@dataclass(frozen=True)
class Chain:
    """Stages in a row; stage i + 1 takes the output of stage i.

    Attributes:
        stages: at least one, numbered from 1 in plans.
        input_bytes: of the chain's input, which stays live throughout.

    Raises:
        ChainError: there is no stage, or input_bytes is negative.

    Example:
        >>> Chain.uniform(4)
        Chain(4 stages, input 1 B, saved 4 B, forward 4 s, backward 8 s)
    """

    stages: tuple[Stage, ...]
    input_bytes: int

    def __init__(self, stages: Sequence[Stage], *, input_bytes: int) -> None:
        object.__setattr__(self, "stages", tuple(stages))
        object.__setattr__(self, "input_bytes", input_bytes)
        _check_quantity("input_bytes", input_bytes)
        if not self.stages:
            raise ChainError("a chain needs at least one stage; none was given")
        for stage in self.stages:
            if not isinstance(stage, Stage):
                raise ChainError(
                    f"{stage!r} is {type(stage).__name__}, not a Stage; make one with "
                    "Stage(name, output_bytes, saved_bytes, …)"
                )

    @classmethod
    def uniform(
        cls,
        n_stages: int,
        *,
        output_bytes: int = 1,
        saved_bytes: int | None = None,
        forward_seconds: float = 1.0,
        backward_seconds: float = 2.0,
        forward_extra_bytes: int = 0,
        backward_extra_bytes: int = 0,
        input_bytes: int | None = None,
    ) -> "Chain":
        """A chain of equal stages; one activation of one byte each, unless told.

        Args:
            n_stages: how many.
            saved_bytes, input_bytes: as output_bytes, unless told.
        """
        if not isinstance(n_stages, int) or n_stages < 1:
            raise ChainError(f"n_stages is {n_stages!r}; a chain has at least 1 stage")
        stages = [
            Stage(
                f"stage {number}",
                output_bytes,
                output_bytes if saved_bytes is None else saved_bytes,
                forward_seconds,
                backward_seconds,
                forward_extra_bytes,
                backward_extra_bytes,
            )
            for number in range(1, n_stages + 1)
        ]
        return cls(
            stages, input_bytes=output_bytes if input_bytes is None else input_bytes
        )

    def __len__(self) -> int:
        return len(self.stages)

    def activation_bytes(self, number: int) -> int:
        """Bytes of the output of stage `number`; 0 stands for the chain's input."""
        return self.stages[number - 1].output_bytes if number else self.input_bytes

    def __repr__(self) -> str:
        saved_bytes = sum(stage.saved_bytes for stage in self.stages)
        forward_seconds = sum(stage.forward_seconds for stage in self.stages)
        backward_seconds = sum(stage.backward_seconds for stage in self.stages)
        return (
            f"Chain({len(self)} stages, input {format_bytes(self.input_bytes)}, "
            f"saved {format_bytes(saved_bytes)}, "
            f"forward {format_seconds(forward_seconds)}, "
            f"backward {format_seconds(backward_seconds)})"
        )


def _check_quantity(name: str, value: object) -> None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if name.endswith("_bytes"):
        if not is_whole or value < 0:  # type: ignore[operator]
            raise ChainError(
                f"{name} is {value!r}; it must be a whole number from 0 up"
            )
    elif not (is_whole or isinstance(value, float)) or not 0 <= value < inf:  # type: ignore[operator]
        raise ChainError(f"{name} is {value!r}; it must be a finite number from 0 up")

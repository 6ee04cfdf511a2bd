"""Play a plan on a chain: memory and time, event by event; the single truth.

What counts, by number (the code refers back to these):

1. Live bytes begin with the chain's input, which stays throughout.
2. Forward, a bare stage adds its saved_bytes, output included. Inside a
   parenthesis a stage adds its output, and its input goes once the output is
   there, unless it is the parenthesis' own input.
3. The backward pass begins with the gradient of the chain's output.
4. Backward of a stage needs its saved bytes and the gradient of its output, and
   makes the gradient of its input. Then its saved bytes and its output's gradient
   go.
5. Backward of a parenthesis: its output goes, for what needed it has had its
   backward pass. Then its inner plan runs forward from the kept input, with the
   gradient of its output live, and after that backward.
6. In that recomputation a parenthesis that ends the inner plan is not run:
   nothing needs its output before its own backward pass. A bare stage that ends it
   runs up to the last tensor that it saves, without its skipped_seconds.
7. While a stage runs, its forward_extra_bytes or backward_extra_bytes are live too.
8. Time is the sum of all runs.
"""

from dataclasses import dataclass
from typing import Literal

from ckptlab.errors import PlanError
from ckptlab.planning.chain import Chain
from ckptlab.planning.plan import Item, Plan
from ckptlab.units import format_bytes, format_seconds

Action = Literal["forward", "discard", "gradient", "recompute", "backward", "free"]


@dataclass(frozen=True)
class Step:
    """One event of a replayed training step.

    Attributes:
        action: "forward" and "recompute" run a stage forward; "discard" drops an
            output that nothing keeps; "gradient" is that of the chain's output;
            "backward" runs a stage backward; "free" drops what it needed.
        stage: its number; for "gradient", the last stage's.
        live_bytes: after the event.
        running_bytes: the most that was live during it.
        seconds: since the step began, after the event.
    """

    action: Action
    stage: int
    live_bytes: int
    running_bytes: int
    seconds: float

    def __repr__(self) -> str:
        return (
            f"<{self.action} {self.stage}: {format_bytes(self.live_bytes)} live, "
            f"{format_bytes(self.running_bytes)} during, "
            f"at {format_seconds(self.seconds)}>"
        )


@dataclass(frozen=True)
class Ledger:
    """What a training step costs under a plan.

    Attributes:
        steps: every event in order.
        bytes_at_backward_start: live when the backward pass begins, the chain's
            input and the gradient left out.
        forward_runs: stage number -> how often the stage is entered.
    """

    steps: tuple[Step, ...]
    bytes_at_backward_start: int
    forward_runs: dict[int, int]

    @property
    def peak_step(self) -> Step:
        """The event during which most bytes are live; the first of equals."""
        return max(self.steps, key=lambda step: step.running_bytes)

    @property
    def peak_bytes(self) -> int:
        """The most bytes that are live at once, the chain's input included."""
        return self.peak_step.running_bytes

    @property
    def total_seconds(self) -> float:
        """Seconds of all forward and backward runs together."""
        return self.steps[-1].seconds

    def __repr__(self) -> str:
        peak = self.peak_step
        return (
            f"Ledger(peak {format_bytes(self.peak_bytes)} in {peak.action} of stage "
            f"{peak.stage}, {format_bytes(self.bytes_at_backward_start)} at backward "
            f"start, {format_seconds(self.total_seconds)})"
        )


def replay(chain: Chain, plan: Plan) -> Ledger:
    """Play one training step of a chain under a plan.

    Raises:
        PlanError: the plan cannot be executed on this chain.

    Example:
        >>> replay(Chain.uniform(4), Plan.parse("(1 2) (3 4)"))
        Ledger(peak 6 B in backward of stage 4, 2 B at backward start, 16 s)
    """
    if not isinstance(plan, Plan):
        raise PlanError(f"{plan!r} is not a plan; make one with Plan.parse({plan!r})")
    if plan.stages != range(1, len(chain) + 1):
        raise PlanError(
            f"the plan '{plan}' is for stages {plan.stages[0]} to {plan.stages[-1]}, "
            f"but the chain has stages 1 to {len(chain)}; write a plan for those"
        )
    player = _Player(chain)
    for item in plan.items:
        player.forward(item, "forward")
    bytes_at_backward_start = player.live_bytes - chain.input_bytes
    player.start_backward()
    player.backward(plan)
    return Ledger(tuple(player.steps), bytes_at_backward_start, player.forward_runs)


class _Player:
    """Live bytes and time while a step is played."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.steps: list[Step] = []
        self.forward_runs = dict.fromkeys(range(1, len(chain) + 1), 0)
        self.live_bytes = chain.input_bytes  # rule 1
        self.seconds = 0.0

    def forward(self, item: Item, action: Action) -> None:
        if isinstance(item, int):
            self._run_forward(item, action, self.chain.stages[item - 1].saved_bytes)
            return
        for number in item.stages:
            self._run_forward(number, action, self.chain.activation_bytes(number))
            if number > item.stages[0]:
                before = number - 1
                self._drop("discard", before, self.chain.activation_bytes(before))

    def start_backward(self) -> None:
        last = len(self.chain)
        self._note("gradient", last, self.chain.activation_bytes(last))  # rule 3

    def backward(self, plan: Plan) -> None:
        # items still to run backward, the next one on top, and whether each was run
        todo = [(item, True) for item in plan.items]
        while todo:
            item, is_live = todo.pop()
            if isinstance(item, int):
                self._run_backward(item)
                continue
            if is_live:
                last = item.stages[-1]
                self._drop("discard", last, self.chain.activation_bytes(last))  # rule 5
            *before, end = item.items
            for inner in before:
                self.forward(inner, "recompute")
            if isinstance(end, int):  # rule 6
                self.seconds -= self.chain.stages[end - 1].skipped_seconds
                self.forward(end, "recompute")
            todo += [*((inner, True) for inner in before), (end, False)]

    def _run_forward(self, number: int, action: Action, kept_bytes: int) -> None:
        stage = self.chain.stages[number - 1]
        self.forward_runs[number] += 1
        self.seconds += stage.forward_seconds
        self._note(action, number, kept_bytes, stage.forward_extra_bytes)

    def _run_backward(self, number: int) -> None:
        stage = self.chain.stages[number - 1]
        self.seconds += stage.backward_seconds
        gradient_bytes = self.chain.activation_bytes(number - 1)
        self._note("backward", number, gradient_bytes, stage.backward_extra_bytes)
        self._drop("free", number, stage.saved_bytes + stage.output_bytes)  # rule 4

    def _note(
        self, action: Action, number: int, added_bytes: int, extra_bytes: int = 0
    ) -> None:
        self.live_bytes += added_bytes
        running_bytes = self.live_bytes + extra_bytes  # rule 7
        self.steps.append(
            Step(action, number, self.live_bytes, running_bytes, self.seconds)
        )

    def _drop(self, action: Action, number: int, dropped_bytes: int) -> None:
        before = self.live_bytes
        self.live_bytes -= dropped_bytes
        self.steps.append(Step(action, number, self.live_bytes, before, self.seconds))

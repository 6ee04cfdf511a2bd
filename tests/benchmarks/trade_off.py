"""Plans for a budget beside PyTorch's own ways to save memory; in Markdown.

.venv/bin/python -m tests.benchmarks.trade_off

Two models train for a step under ten budgets, from the smallest that a plan needs to
what storing all takes. The rivals: `checkpoint_sequential` with every number of
segments over the same stages, `checkpoint` around every block, selective
checkpointing of every block that saves products and convolutions, and, with
`--compile-seconds` to spend, `torch.compile` under an activation memory budget.

1. Peaks are the allocator's own record, in one step apart from the timed ones. The
   gradients of parameters are there before the step, as when gradients accumulate; one
   that is added to them is short-lived, and counts.
2. A rival takes part in a row if its measured peak is within the row's budget.
3. Numbers of segments that another number beats clearly in both time and memory, in a
   trial, are left out. Everyone else takes a turn in each round, in an order that
   moves on by one from round to round; times are medians over the rounds, ratios
   medians of each round's ratio.
4. What operations use inside themselves no probe sees, and the planner plans without
   gradients of parameters. Where the measured peak is above the budget, the plan is
   made anew for as much less. The smallest budget is the measured peak of the plan
   that needs least.
5. One thread of the CPU unless told; its seconds are then those that the processor
   worked, so that other processes do not count.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch._dynamo
import torch._functorch.config
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)
from tqdm import tqdm

from ckptlab import (
    BudgetTooSmall,
    Chain,
    Plan,
    apply_plan,
    count_bytes,
    format_bytes,
    pareto,
    plan_for_budget,
    plan_store_all,
    profile_chain,
    replay,
)
from tests.benchmarks.trade_off_models import DEVICE, Case, cnn, transformer
from tests.memory.allocator import allocator_record

ROUNDS, BUDGETS, CLEARLY = 5, 10, 1.1
SHARES = (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)

Run = Callable[[], object]


# -- the rivals --------------------------------------------------------------------

_aten = torch.ops.aten
SAVED_OPERATIONS = {
    _aten.mm.default,
    _aten.addmm.default,
    _aten.bmm.default,
    _aten.baddbmm.default,
    _aten.convolution.default,
    _aten._scaled_dot_product_flash_attention_for_cpu.default,
    _aten._scaled_dot_product_flash_attention.default,
    _aten._scaled_dot_product_efficient_attention.default,
    _aten._scaled_dot_product_cudnn_attention.default,
}


def saves_products(_: Any, operation: Any, *args: Any, **kwargs: Any) -> Any:
    """The usual policy: what is dear to compute is saved."""
    if operation in SAVED_OPERATIONS:
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


def in_segments(case: Case, n_segments: int) -> torch.Tensor:
    """A forward pass."""
    loss: torch.Tensor = checkpoint_sequential(
        case.stages, n_segments, case.x, use_reentrant=False
    )
    return loss


def by_block(case: Case, **options: Any) -> torch.Tensor:
    """A forward pass, with every block checkpointed, but not what is around them."""
    first, *blocks, last = case.blocks
    x = first(case.x)
    for block in blocks:
        x = checkpoint(block, x, use_reentrant=False, **options)
    loss: torch.Tensor = last(x)
    return loss


def train(forward: Callable[[], torch.Tensor]) -> None:
    """A training step without an optimizer."""
    forward().backward()


def rivals(case: Case) -> dict[str, Run]:
    """By name: a training step."""
    selective = partial(create_selective_checkpoint_contexts, saves_products)
    named: dict[str, Run] = {
        "every block": partial(train, partial(by_block, case)),
        "selective": partial(train, partial(by_block, case, context_fn=selective)),
    }
    for n_segments in range(1, len(case.stages) + 1):
        forward = partial(in_segments, case, n_segments)
        named[f"{n_segments} segments"] = partial(train, forward)
    return named


# -- measuring ---------------------------------------------------------------------


def seconds_of(run: Run) -> float:
    """Of one run."""
    start = now()
    run()
    return now() - start


def now() -> float:
    """Seconds, once the device has done what it was told (rule 5)."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    elif torch.get_num_threads() == 1:
        return time.process_time()
    return time.perf_counter()


def peak_of(run: Run) -> int:
    """Most bytes handed out at once during a run, above those before it."""
    if DEVICE.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        return torch.cuda.max_memory_allocated() - before
    return allocator_record(run)[0]


def timed(runs: dict[str, Run], name: str) -> dict[str, list[float]]:
    """Seconds of each run in each round."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    order = list(runs)
    for _ in tqdm(range(ROUNDS), desc=f"{name}: rounds", leave=False):
        order.append(order.pop(0))
        for one in order:
            seconds[one].append(seconds_of(runs[one]))
    return seconds


def ratio(ones: list[float], others: list[float]) -> float:
    """Median over the rounds."""
    return statistics.median(a / b for a, b in zip(ones, others, strict=True))


# -- the tables --------------------------------------------------------------------


@dataclass(frozen=True)
class Fit:
    """A plan under a budget, and the step that runs it."""

    budget: int
    plan: Plan
    run: Run
    peak_bytes: int


def fit(case: Case, chain: Chain, budget: int) -> Fit:
    """The plan for a budget whose measured peak is within it (rule 4)."""
    set_aside = 0
    while True:
        try:
            plan = plan_for_budget(chain, budget - set_aside)
        except BudgetTooSmall as error:
            plan = plan_for_budget(chain, error.smallest_bytes)
        run = partial(train, partial(apply_plan(case.stages, plan), case.x))
        run()
        peak_bytes = peak_of(run) + chain.input_bytes
        planned_bytes = replay(chain, plan).peak_bytes
        if peak_bytes <= budget or planned_bytes == pareto(chain)[0].peak_bytes:
            return Fit(max(budget, peak_bytes), plan, run, peak_bytes)
        set_aside += max(peak_bytes - budget, 1024)


def fits_of(case: Case, chain: Chain) -> list[Fit]:
    """For budgets from the smallest that works to what storing all takes."""
    least = fit(case, chain, pareto(chain)[0].peak_bytes).budget
    most = fit(case, chain, 2 * pareto(chain)[-1].peak_bytes).peak_bytes
    steps = tqdm(range(BUDGETS), desc=f"{case.name}: plans", leave=False)
    return [
        fit(case, chain, least + (most - least) * step // (BUDGETS - 1))
        for step in steps
    ]


@dataclass(frozen=True)
class Measured:
    """Seconds in each round, and peaks, by name."""

    seconds: dict[str, list[float]]
    peaks: dict[str, int]


def measure(case: Case, chain: Chain, fits: list[Fit]) -> Measured:
    """Every plan and every rival that has a chance."""
    peers = rivals(case)
    peaks, trial = {}, {}
    for name, run in tqdm(peers.items(), desc=f"{case.name}: rivals", leave=False):
        run()
        trial[name] = min(seconds_of(run) for _ in range(2))
        peaks[name] = peak_of(run) + chain.input_bytes
    for name in list(peers):
        is_beaten = any(
            peaks[other] <= peaks[name] and CLEARLY * trial[other] < trial[name]
            for other in trial
        )
        if is_beaten and name.endswith("segments"):
            del peers[name]
    ours = {ours_in(row): one.run for row, one in enumerate(fits)}
    peaks |= {ours_in(row): one.peak_bytes for row, one in enumerate(fits)}
    return Measured(timed(peers | ours, case.name), peaks)


def ours_in(row: int) -> str:
    """The name of a plan."""
    return f"ours {row}"


def row_of(row: int, one: Fit, chain: Chain, measured: Measured) -> list[str]:
    """The cells of a budget."""
    seconds = measured.seconds
    ours, stored = seconds[ours_in(row)], seconds[ours_in(BUDGETS - 1)]
    ledger, stored_ledger = (
        replay(chain, one.plan),
        replay(chain, plan_store_all(chain)),
    )
    cells = [
        format_bytes(one.budget),
        format_bytes(one.peak_bytes),
        format_bytes(ledger.peak_bytes),
        f"{statistics.median(ours) * 1e3:.0f} ms",
        f"{ratio(ours, stored) - 1:+.1%}",
        f"{ledger.total_seconds / stored_ledger.total_seconds - 1:+.1%}",
    ]
    segments = [name for name in seconds if name.endswith("segments")]
    for group in (segments, ["every block"], ["selective"]):
        fitting = [name for name in group if measured.peaks[name] <= one.budget]
        best = min(
            fitting, key=lambda name: statistics.median(seconds[name]), default=""
        )
        cell = f"{ratio(seconds[best], ours):.2f}" if best else "–"
        if best and group is segments:
            cell += f" ({best.split()[0]})"
        cells.append(cell)
    return cells


def table(case: Case, compile_seconds: float) -> None:
    """Measure and print."""
    chain = profile_chain(case.stages, case.x)
    fits = fits_of(case, chain)
    measured = measure(case, chain, fits)
    stored = measured.seconds[ours_in(BUDGETS - 1)]
    print(f"\n### {case.name}\n")
    print(
        f"{len(chain)} stages; storing all takes {format_bytes(fits[-1].peak_bytes)} "
        f"and {statistics.median(stored) * 1e3:.0f} ms a step. Rivals: their time, "
        "ours being 1, where their peak is within the budget.\n"
    )
    print(
        "| budget | our peak | predicted | our time | above storing all | predicted "
        "| segments (how many) | every block | selective |"
    )
    print("|" + "---|" * 9)
    for row, one in enumerate(fits):
        print(f"| {' | '.join(row_of(row, one, chain, measured))} |", flush=True)
        print(one.plan, file=sys.stderr)
    print("\n| rival | peak | above storing all |\n|---|---|---|")
    for name in ("every block", "selective"):
        above = ratio(measured.seconds[name], stored) - 1
        print(f"| {name} | {format_bytes(measured.peaks[name])} | {above:+.1%} |")
    if not case.has_equal_blocks:
        print("\ntorch.compile did not run: unlike blocks take minutes to compile.")
    elif compile_seconds > 0:
        compiled_table(case, measured, compile_seconds)


# -- torch.compile -----------------------------------------------------------------


def compiled(case: Case, share: float) -> Run:
    """A step with every block compiled under a share of the memory that it would keep.

    It has run when it is returned, compiled forward and backward.
    """
    torch._dynamo.reset()
    with torch._functorch.config.patch(activation_memory_budget=share):
        blocks: list[Any] = [
            case.blocks[0],
            *(torch.compile(block, dynamic=False) for block in case.blocks[1:-1]),
            case.blocks[-1],
        ]
        run = partial(train, partial(nn.Sequential(*blocks), case.x))
        run()
    return run


def compiled_table(case: Case, measured: Measured, limit_seconds: float) -> None:
    """Beside our plans, each above its own way to store all."""
    print(
        "\n| torch.compile, memory budget | peak | above its 1.0 | ours in that peak |"
    )
    print("|---|---|---|---|")
    start, stored_seconds = time.perf_counter(), 0.0
    ours = [name for name in measured.seconds if name.startswith("ours")]
    stored = statistics.median(measured.seconds[ours[-1]])
    for share in SHARES:
        if time.perf_counter() - start > limit_seconds:
            print(f"| {share} | did not run: {limit_seconds:.0f} s were over | | |")
            continue
        try:
            run = compiled(case, share)
            peak_bytes = peak_of(run) + count_bytes([case.x])
            seconds = statistics.median(seconds_of(run) for _ in range(ROUNDS))
        except Exception as error:  # whatever a compiler may raise
            reason = str(error).strip().splitlines() or [""]
            print(f"| {share} | did not run: {type(error).__name__} {reason[0]} | | |")
            continue
        stored_seconds = stored_seconds or seconds
        within = [
            statistics.median(measured.seconds[name]) / stored - 1
            for name in ours
            if measured.peaks[name] <= peak_bytes
        ]
        print(
            f"| {share} | {format_bytes(peak_bytes)} | "
            f"{seconds / stored_seconds - 1:+.1%} | "
            f"{f'{min(within):+.1%}' if within else '–'} |",
            flush=True,
        )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1, help="of the CPU")
    parser.add_argument("--compile-seconds", type=float, default=40, help="0 for none")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    print(
        f"{DEVICE.type}, torch {torch.__version__}, {torch.get_num_threads()} threads"
    )
    for make in (transformer, cnn):
        table(make(), arguments.compile_seconds)


if __name__ == "__main__":
    main()

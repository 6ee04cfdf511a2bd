"""How long a solve takes, how that grows, and how good it is; in Markdown.

.venv/bin/python -m tests.benchmarks.planner

1. On chains of equal stages `checkpoint-schedules` is the rival: it knows the best
   schedule for so many snapshots. Ours gets the same memory in its own terms: the
   input, the snapshots, what one stage saves, and two gradients. A stage saves
   more than all of these, so that neither can use the memory of one for another.
2. On unlike stages the truth is solved slowly with exact bytes
   (`tests.planning.exact`). Where that takes too long there is the best `plan_every`,
   which a user would pick instead.
"""

import math
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence

from checkpoint_schedules import Forward, MultistageCheckpointSchedule

from ckptlab.planning.chain import Chain, Stage
from ckptlab.planning.frontier import Frontier
from ckptlab.planning.planners import plan_every, plan_for_budget
from ckptlab.planning.replay import replay
from tests.planning.exact import true_trade_offs

REPEATS = 5


def unlike_chain(n_stages: int) -> Chain:
    """Stages of random bytes and seconds."""
    chance = random.Random(0)
    stages = []
    for number in range(n_stages):
        output_bytes = chance.randint(10**6, 10**7)
        saved_bytes = output_bytes + chance.randint(10**6, 10**8)
        seconds = 0.1 + chance.random(), 0.2 + 2 * chance.random()
        extra = chance.randint(0, 10**7), chance.randint(0, 10**7)
        stages.append(Stage(f"{number}", output_bytes, saved_bytes, *seconds, *extra))
    return Chain(stages, input_bytes=10**6)


def block_chain(n_blocks: int) -> Chain:
    """Equal transformer blocks, each split in two, between an embedding and a head."""
    chain = unlike_chain(4)
    first, attention, mlp, last = chain.stages
    return Chain([first, *[attention, mlp] * n_blocks, last], input_bytes=10**6)


def median_seconds(run: Callable[[], object]) -> float:
    return statistics.median(seconds_of(run) for _ in range(REPEATS))


def measure(name: str, chain: Chain) -> float:
    """Print a row of the first table; the seconds of the solve."""
    solve_seconds = median_seconds(lambda: Frontier(chain))
    tracemalloc.start()
    found = Frontier(chain)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    plan_seconds = max(
        median_seconds(lambda b=budget: found.plan(b))  # type: ignore[misc]
        for budget in budgets_of(found)
    )
    print(
        f"| {name} | {solve_seconds:.2f} s | {1000 * plan_seconds:.0f} ms "
        f"| {peak_bytes / 2**20:.0f} MiB |",
        flush=True,
    )
    return solve_seconds


def budgets_of(found: Frontier) -> list[int]:
    """Nine, evenly between the least that works and what storing all takes."""
    least, most = int(found.peak_bytes[0]), int(found.peak_bytes[-1])
    return [least + (most - least) * tenth // 10 for tenth in range(1, 10)]


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Of the power with which seconds grow: the slope on logarithmic axes."""
    x, y = [math.log(size) for size in sizes], [math.log(one) for one in seconds]
    return statistics.linear_regression(x, y).slope


# -- the tables ----------------------------------------------------------------------


def solves() -> None:
    """How long, and the growth."""
    print("| chain | first solve | any budget after it | memory of the solve |")
    print("|---|---|---|---|")
    measure("48 blocks in two, embedding, head", block_chain(48))
    unlike, equal = (10, 30, 100, 300, 1000), (100, 1000, 10_000)
    taken = [measure(f"{n:,} unlike stages", unlike_chain(n)) for n in unlike]
    same = [measure(f"{n:,} equal stages", Chain.uniform(n)) for n in equal]
    print(
        f"\nFrom {unlike[1]} unlike stages on the time grows with the power "
        f"{exponent(unlike[1:], taken[1:]):.1f} of their number, for equal ones with "
        f"{exponent(equal, same):.1f}."
    )


def beside_revolve() -> None:
    """Rule 1."""
    print(
        "\n| equal stages | snapshots | forward runs, ours | theirs | ours takes "
        "| theirs | ratio |\n|---|---|---|---|---|---|---|"
    )
    for n_stages in (10, 30, 100, 300, 1000):
        snapshots = math.isqrt(n_stages)
        tape = snapshots + 1
        chain = Chain.uniform(n_stages, saved_bytes=1 + tape)
        budget = 1 + snapshots + (1 + tape) + 2
        plan = Frontier(chain).plan(budget)
        runs = sum(replay(chain, plan).forward_runs.values())
        theirs = sum(
            action.n1 - action.n0
            for action in MultistageCheckpointSchedule(n_stages, snapshots, 0)
            if isinstance(action, Forward)
        )
        ours, other = [], []
        for _ in range(REPEATS):
            ours.append(seconds_of(lambda: Frontier(chain).plan(budget)))  # noqa: B023
            schedule = MultistageCheckpointSchedule(n_stages, snapshots, 0)
            other.append(seconds_of(lambda: list(schedule)))  # noqa: B023
        ratio = statistics.median(a / b for a, b in zip(ours, other, strict=True))
        print(
            f"| {n_stages:,} | {snapshots} | {runs:,} | {theirs:,} "
            f"| {statistics.median(ours):.3f} s | {statistics.median(other):.3f} s "
            f"| {ratio:.2f} |",
            flush=True,
        )
    print(
        "\nTheirs knows equal stages alone and gives one schedule by a formula; ours "
        "takes any stages, and one solve serves every budget."
    )


def quality() -> None:
    """Rule 2: the worst of nine budgets."""
    print(
        "\n| unlike stages | time of our plan, the best being 1, at most "
        "| best `plan_every`, ours at its memory being 1 |\n|---|---|---|"
    )
    for n_stages in (10, 30, 60, 300, 1000):
        chain = unlike_chain(n_stages)
        ours = "too slow to know"
        if n_stages <= 60:
            peaks, seconds = true_trade_offs(chain)
            worst = max(
                replay(chain, plan_for_budget(chain, budget)).total_seconds
                / min(s for p, s in zip(peaks, seconds, strict=True) if p <= budget)
                for budget in budgets_of(Frontier(chain))
            )
            ours = f"{worst:.4f}"
        least_bytes, seconds_of_least = min(
            (ledger.peak_bytes, ledger.total_seconds)
            for k in range(2, n_stages)
            for ledger in [replay(chain, plan_every(chain, k))]
        )
        mine = replay(chain, plan_for_budget(chain, least_bytes))
        print(
            f"| {n_stages:,} | {ours} | {seconds_of_least / mine.total_seconds:.2f} |",
            flush=True,
        )


def seconds_of(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    """Print the tables."""
    solves()
    beside_revolve()
    quality()


if __name__ == "__main__":
    main()

"""How long a solve takes, and how it grows with the stages: a table in Markdown.

.venv/bin/python -m tests.benchmarks.planner
"""

import random
import statistics
import time
import tracemalloc
from collections.abc import Callable

from ckptlab.planning.chain import Chain, Stage
from ckptlab.planning.frontier import Frontier

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
    taken = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def measure(name: str, chain: Chain) -> str:
    """A row of the table."""
    solve_seconds = median_seconds(lambda: Frontier(chain))
    tracemalloc.start()
    found = Frontier(chain)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    least, most = int(found.peak_bytes[0]), int(found.peak_bytes[-1])
    budgets = [least + (most - least) * tenth // 10 for tenth in range(1, 10)]
    plan_seconds = max(
        median_seconds(lambda b=budget: found.plan(b))  # type: ignore[misc]
        for budget in budgets
    )
    return (
        f"| {name} | {solve_seconds:.2f} s | {1000 * plan_seconds:.0f} ms "
        f"| {peak_bytes / 2**20:.0f} MiB |"
    )


def main() -> None:
    print("| chain | first solve | any budget after it | memory of the solve |")
    print("|---|---|---|---|")
    print(measure("48 blocks in two, embedding, head", block_chain(48)))
    for n_stages in (10, 30, 100, 300, 1000):
        print(measure(f"{n_stages:,} unlike stages", unlike_chain(n_stages)))
    for n_stages in (100, 1000, 10_000):
        print(measure(f"{n_stages:,} equal stages", Chain.uniform(n_stages)))


if __name__ == "__main__":
    main()

"""How long it takes to count what models of up to a trillion parameters keep.

.venv/bin/python -m tests.benchmarks.giants

The four models of Korthikanti et al. 2022, Table 3, with sequence 2048, vocabulary
51200 and 16-bit activations, whole, on one rank, under fake tensors. Each runs in a
process of its own, so that the peak memory is its own.
"""

import subprocess
import sys
import time

import torch

from ckptlab.memory.fake import without_memory
from ckptlab.memory.saved import saved_tensors
from ckptlab.memory.storage import parameter_bytes
from ckptlab.memory.timeline import memory_timeline
from ckptlab.models import GPT
from ckptlab.units import format_bytes
from tests.benchmarks.paper import MODELS, SEQUENCE

VOCABULARY = 51200


def resident_peak_bytes() -> int:
    """The most memory that this process has had (Linux)."""
    with open("/proc/self/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


def measure(name: str) -> str:
    """A row of the table."""
    heads, hidden, layers, micro_batch = MODELS[name]
    start = time.perf_counter()
    torch.set_default_dtype(torch.bfloat16)
    with without_memory():
        model = GPT(
            heads=heads,
            hidden=hidden,
            layers=layers,
            sequence=SEQUENCE,
            vocabulary=VOCABULARY,
        )
        tokens = torch.zeros(micro_batch, SEQUENCE, dtype=torch.long)
        built = time.perf_counter()
        with saved_tensors(model) as saved:
            model(tokens)
        counted = time.perf_counter()
        with memory_timeline(model) as timeline:
            model(tokens).sum().backward()
        followed = time.perf_counter()
    columns = (
        name,
        f"{parameter_bytes(model) // 2 / 1e9:.1f}",
        format_bytes(saved.total_bytes),
        f"{built - start:.1f} s",
        f"{counted - built:.1f} s",
        format_bytes(timeline.peak_bytes),
        f"{followed - counted:.1f} s",
        format_bytes(resident_peak_bytes()),
    )
    return f"| {' | '.join(columns)} |"


def main() -> None:
    """Print the table."""
    print(
        "| model | billion parameters | autograd keeps | built in | counted in "
        "| peak of forward and backward | followed in | this took at most |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    for name in MODELS:
        row = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.giants", name],
            check=True,
            capture_output=True,
            text=True,
        )
        print(row.stdout.strip(), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(measure(sys.argv[1]))
    else:
        main()

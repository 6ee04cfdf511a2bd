"""All tables of the benchmarks, one after another, as Markdown.

    .venv/bin/python -m tests.benchmarks                  print all of them
    .venv/bin/python -m tests.benchmarks planner probes   print some
    .venv/bin/python -m tests.benchmarks --save           and write what is printed to
                                                          tests/benchmarks/results.md

With `--save` the README's table is replaced by the new one as well. Each benchmark has
a process of its own: none finds the machine warmed up by another.
"""

import argparse
import datetime
import os
import platform
import subprocess
import sys
from pathlib import Path

import torch

BENCHMARKS = {
    "trade_off": "Trade-off: plans for a budget beside PyTorch's ways to save memory",
    "checkpoint": "Runtime: `checkpoint` beside `torch.utils.checkpoint`",
    "probes": "Probes: `saved_tensors` and `memory_timeline` beside others",
    "planner": "Planner: time and quality against the number of stages",
    "course": "Course: what a learner waits for",
    "paper": "Trillion: Table 2 of Korthikanti et al. 2022, measured",
    "giants": "Trillion: whole models under fake tensors",
}
"""Module -> what its tables are about, in the order of printing."""

RESULTS = Path(__file__).with_name("results.md")
README = Path(__file__).resolve().parents[2] / "README.md"
BEGIN, END = "<!-- begin: trade_off -->\n", "<!-- end: trade_off -->\n"


def machine() -> str:
    """What the tables were measured on, and when."""
    if torch.cuda.is_available():
        device = torch.cuda.get_device_name()
    else:
        device = f"{os.cpu_count()} cores, {platform.machine()}, no GPU"
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    python = platform.python_version()
    return f"{device}; PyTorch {torch.__version__}, Python {python}; {today}"


def run(name: str) -> str:
    """What a benchmark prints, shown as it comes."""
    lines = []
    command = [sys.executable, "-m", f"tests.benchmarks.{name}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as benchmark:
        assert benchmark.stdout is not None
        for line in benchmark.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if benchmark.returncode:
        sys.exit(f"the benchmark {name} ended with status {benchmark.returncode}")
    return "".join(lines)


def put_into_readme(table: str) -> None:
    """Replace what stands between the marks."""
    before, _, rest = README.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    README.write_text(f"{before}{BEGIN}\n{table.strip()}\n\n{END}{after}")


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--save", action="store_true", help="write results.md")
    options = parser.parse_args()
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(f"no benchmark {sorted(unknown)}; choose of {list(BENCHMARKS)}")
    if options.save and options.names:
        parser.error("--save writes all tables; leave out the names")
    tables = {}
    print(machine())
    for name, title in BENCHMARKS.items():
        if not options.names or name in options.names:
            print(f"\n## {title}\n", flush=True)
            tables[name] = run(name)
    if options.save:
        parts = (f"## {BENCHMARKS[name]}\n\n{table}" for name, table in tables.items())
        head = f"# Results of the benchmarks\n\nMeasured on {machine()}.\n\n"
        RESULTS.write_text(head + "\n".join(parts))
        put_into_readme(f"Measured on {machine()}.\n\n{tables['trade_off']}")


if __name__ == "__main__":
    main()

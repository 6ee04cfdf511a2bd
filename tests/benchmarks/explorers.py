"""Kernel time of a step on each control of every lesson's explorer: a Markdown table.

    .venv/bin/python -m tests.benchmarks.explorers

Each lesson runs up to its explorer. Then every control is dragged from end to end, as
a learner does it, and each step is timed in the kernel.
"""

import json
import os
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

LESSONS = Path(__file__).resolve().parents[2] / "lessons"
DRAG = """
import json, statistics, time
explorer, taken = Out[max(Out)], {}
for control in explorer.controls:
    steps = []
    for value in control["values"]:
        start = time.perf_counter()
        explorer.choose(**{control["name"]: value})
        steps.append(time.perf_counter() - start)
    n_values = len(control["values"])
    taken[control["label"]] = n_values, statistics.median(steps), max(steps)
print(json.dumps(taken))
"""


def drag(path: Path) -> dict[str, tuple[int, float, float]]:
    """Control -> how many values it has, and the median and longest step in seconds."""
    notebook = nbformat.read(path, as_version=4)
    last = next(i for i, c in enumerate(notebook.cells) if is_explorer(c))
    notebook.cells = [*notebook.cells[: last + 1], nbformat.v4.new_code_cell(DRAG)]
    resources = {"metadata": {"path": str(LESSONS)}}
    NotebookClient(notebook, timeout=600, resources=resources).execute()
    taken: dict[str, tuple[int, float, float]] = json.loads(
        notebook.cells[-1].outputs[0]["text"]
    )
    return taken


def is_explorer(cell: nbformat.NotebookNode) -> bool:
    return cell.cell_type == "code" and any(
        line.startswith("explore_") for line in cell.source.splitlines()
    )


def main() -> None:
    print("| lesson | control | values | median | longest |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CKPTLAB_PROGRESS"] = str(Path(folder) / "progress.json")
        for path in sorted(LESSONS.glob("*.ipynb")):
            if not any(map(is_explorer, nbformat.read(path, as_version=4).cells)):
                continue
            for label, (n_values, median, longest) in drag(path).items():
                times = f"{median * 1e3:.1f} ms | {longest * 1e3:.1f} ms"
                print(f"| {path.stem[:2]} | {label} | {n_values} | {times} |")


if __name__ == "__main__":
    main()

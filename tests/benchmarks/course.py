"""What a learner waits for, and what a kernel takes: tables in Markdown.

    .venv/bin/python -m tests.benchmarks.course

1. Every lesson runs in a kernel of its own, started anew for each of the rounds; beside
   it a kernel that does no more than to import PyTorch and Matplotlib.
2. Where Chromium is installed, lessons are opened in JupyterLab as well, from a server
   that has just started.
3. Last come the tables of `quiz` and `explorers`: a commit, and a step of a slider.
"""

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from playwright.sync_api import sync_playwright

from ckptlab.units import format_bytes
from tests.benchmarks import explorers, quiz
from tests.browser.conftest import BROWSERS, SWITCHES, WINDOW, LessonPage, _serve

LESSONS = Path(__file__).resolve().parents[2] / "lessons"
ROUNDS = 5
IN_A_BROWSER = ("00", "01", "05")
BARE = "import torch, matplotlib"
PEAK = "import re; 1024 * int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status')"
PEAK += ".read())[1])"
"""Of the kernel alone, on Linux: ru_maxrss would be that of its parent, if larger."""


def waits(notebook: Any) -> tuple[float, float, float, float, int]:
    """Seconds to the kernel, first cell, first prediction, end; and bytes at most."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    asks = next((i for i, c in enumerate(cells) if "predict(" in c.source and i), 0)
    cells.append(nbformat.v4.new_code_cell(PEAK))
    run = nbformat.v4.new_notebook(cells=cells)
    resources = {"metadata": {"path": str(LESSONS)}}
    client = NotebookClient(run, timeout=300, resources=resources)
    start = time.perf_counter()
    with client.setup_kernel():
        client.wait_for_reply(client.kc.kernel_info())
        kernel = time.perf_counter() - start
        ends = []
        for number, cell in enumerate(cells):
            client.execute_cell(cell, number)
            ends.append(time.perf_counter() - start)
    peak = int(cells[-1].outputs[0]["data"]["text/plain"])
    return kernel, ends[0] - kernel, ends[asks], ends[-2], peak


def kernels() -> None:
    """Rule 1."""
    bare = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(BARE)])
    notebooks = {f"`{BARE}`": bare}
    for path in sorted(LESSONS.glob("*.ipynb")):
        notebooks[path.stem[:2]] = nbformat.read(path, as_version=4)
    taken: dict[str, list[tuple[float, ...]]] = {name: [] for name in notebooks}
    for _ in range(ROUNDS):
        for name, notebook in notebooks.items():
            taken[name].append(waits(notebook))
    print(
        "| lesson | kernel | first cell | of the bare imports "
        "| to the first prediction | to the end | memory of the kernel |\n"
        "|---|---|---|---|---|---|---|"
    )
    bare_cell = [seconds[1] for seconds in taken[f"`{BARE}`"]]
    for name, rounds in taken.items():
        kernel, _, asks, end, peak = map(statistics.median, zip(*rounds, strict=True))
        cell = [seconds[1] for seconds in rounds]
        ratio = statistics.median(a / b for a, b in zip(cell, bare_cell, strict=True))
        later = (
            ["–", "–"] if name.startswith("`") else [f"{asks:.1f} s", f"{end:.1f} s"]
        )
        columns = [name, f"{kernel:.1f} s", f"{statistics.median(cell):.1f} s"]
        columns += [f"{ratio:.2f}", *later, format_bytes(int(peak))]
        print(f"| {' | '.join(columns)} |", flush=True)
    whole = sum(
        statistics.median(r[3] for r in taken[n]) for n in taken if "`" not in n
    )
    print(f"\nAll lessons, one after another: {whole:.0f} s.")


def openings(chromium: str) -> Iterator[tuple[str, float, float]]:
    """Lesson, seconds until it is open and idle, and from Run All to a prediction.

    Each time from a server of its own, or JupyterLab would take up the last kernel.
    """
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=list(SWITCHES)
        )
        for name in ROUNDS * IN_A_BROWSER:
            with tempfile.TemporaryDirectory() as folder:
                home = Path(folder)
                shutil.copytree(LESSONS, home / "lessons")
                (path,) = LESSONS.glob(f"{name}*.ipynb")
                with _serve(home, "jupyterlab", "--IdentityProvider.token=") as lab:
                    page = browser.new_page(viewport=WINDOW)
                    start = time.perf_counter()
                    lesson = LessonPage(page, lab, path.stem)
                    opened = time.perf_counter()
                    lesson._choose("Run", "Run All Cells")
                    lesson.predictions.first.wait_for(timeout=60_000)
                    yield name, opened - start, time.perf_counter() - opened
                    page.close()
        browser.close()


def in_jupyterlab() -> None:
    """Rule 2."""
    chromium = next(filter(None, map(shutil.which, BROWSERS)), None)
    if chromium is None:
        print("\nNo browser: Chromium is missing.")
        return
    rows = list(openings(chromium))
    print("\n| in JupyterLab | opened | from Run All Cells to a prediction |")
    print("|---|---|---|")
    for name in IN_A_BROWSER:
        mine = [row[1:] for row in rows if row[0] == name]
        opened, asked = map(statistics.median, zip(*mine, strict=True))
        print(f"| lesson {name} | {opened:.1f} s | {asked:.1f} s |", flush=True)


def main() -> None:
    """Print the tables."""
    with tempfile.TemporaryDirectory() as folder:  # nobody's own answers
        os.environ["CKPTLAB_PROGRESS"] = str(Path(folder) / "progress.json")
        kernels()
    in_jupyterlab()
    print()
    quiz.main()
    print()
    explorers.main()


if __name__ == "__main__":
    main()

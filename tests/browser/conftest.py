"""Servers of their own on a copy of the lessons, and Chromium to look at them."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect, sync_playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SWITCHES = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WINDOW = {"width": 1280, "height": 900}
EVERY_KIND: dict[str, object] = {  # of the bank of that name, and what is measured
    "one": "green",
    "several": ["cod", "duck"],
    "amount": 1.5 * 2**30,
    "estimate": 300,
    "sequence": ["morning", "noon", "evening"],
    "curve": [1, 4, 16],
    "own-words": None,
}
SLOW_EXPLORER = """
import time
from ckptlab.course.explorers.explorer import Control, Explorer

pictures = []

def draw(chosen):
    if pictures:
        time.sleep(0.3)
    pictures.append(chosen)
    words = "Size {size}, step {step}, colour {colour}, light {light}".format(**chosen)
    return "<svg></svg>", f"{words}, picture {len(pictures)}"

Explorer(draw, controls=(
    Control("size", "Size", range(41), 0),
    Control("step", "Step", (1, 2, 3), 1, kind="steps"),
    Control("colour", "Colour", ("red", "blue"), "red", kind="choice"),
    Control("light", "Light", (False, True), False, ("off", "on"), "switch"),
))
"""
START_SECONDS = 60
RUN_SECONDS = 120

expect.set_options(timeout=15_000)

# Every rule of WCAG 2.2 A and AA that axe knows; which cards it could judge the
# contrast in; and the pictures' contrasts, for axe does not look into SVG.
RUN_AXE = """async () => {
  const report = await axe.run(".ckptlab-card", {
    runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"],
    rules: { "target-size": { enabled: true } },
    elementRef: true,
  });
  const list = (results) => results.flatMap(({ id, nodes }) =>
    nodes.map(({ element, html }) => ({ id, element, html })));
  const say = ({ id, html }) => `${id}: ${html}`;
  const color = (text) => {
    const it = new axe.commons.color.Color();
    it.parseString(text);
    return it;
  };
  const contrast = (shape) => {
    const { backgroundColor } = getComputedStyle(shape.closest(".ckptlab-card"));
    const { fill, stroke } = getComputedStyle(shape);
    const seen = [fill, stroke].filter((paint) => paint !== "none");
    return Math.max(...seen.map((paint) =>
      axe.commons.color.getContrast(color(backgroundColor), color(paint))));
  };
  const lowest = (shapes) => Math.min(21,
    ...[...document.querySelectorAll(shapes)].filter((one) => one.checkVisibility())
      .map(contrast));
  const judged = list(report.passes).filter(({ id }) => id === "color-contrast");
  return {
    violations: list(report.violations).map(say),
    undecided: list(report.incomplete)
      .filter(({ element }) => !element.closest("svg")).map(say),
    judged: judged.length,
    cards: new Set(judged.map(({ element }) => element.closest(".ckptlab-card"))).size,
    pictureText: lowest(".ckptlab-card svg text"),
    pictureShapes: lowest(".ckptlab-card svg rect"),
  };
}"""


@dataclass(frozen=True)
class Lab:
    """A running server: where it is, and where its kernels keep the answers."""

    url: str
    lessons: Path
    answers: Path


class LessonPage:
    """One lesson in JupyterLab, and what a learner does to all of it."""

    def __init__(self, page: Page, lab: Lab, name: str) -> None:
        self.page, self._lab, self._name = page, lab, name
        self.cards = page.locator(".ckptlab-card")
        self.predictions = page.locator(".ckptlab-card[data-asks]")
        self.reveals = page.locator(".ckptlab-card[data-open]")
        self.cells = page.locator(".jp-Notebook .jp-Cell")
        self.selected_cell = page.locator(".jp-Notebook .jp-Cell.jp-mod-active")
        self.counters = page.locator(".jp-CodeCell .jp-InputPrompt")
        self.outputs = page.locator(".jp-Notebook .jp-OutputArea")
        self._open(name)

    def run_all(self) -> None:
        self._run(lambda: self._choose("Run", "Run All Cells"))

    def run_all_by_keyboard(self) -> None:
        def start() -> None:
            self.page.keyboard.press("Control+Shift+C")
            self.page.keyboard.type("Run All Cells")
            found = self.page.locator(".lm-CommandPalette-item.lm-mod-active")
            expect(found).to_contain_text("Run All Cells")
            self.page.keyboard.press("Enter")

        self._run(start)

    def restart_kernel_and_run_all(self) -> None:
        def restart() -> None:
            self._choose("Kernel", "Restart Kernel and Run All Cells…")
            restarted = re.compile("/api/kernels/.*/restart")
            with self.page.expect_response(restarted) as response:
                self.page.get_by_role("button", name="Confirm Kernel Restart").click()
            assert response.value.ok

        self._run(restart)

    def reload(self) -> None:
        """Save, and load the page anew, as a learner does who comes back."""
        self.page.keyboard.press("Control+s")
        self.page.wait_for_timeout(1000)
        self._open(self._name)

    def choose_theme(self, name: str) -> None:
        self._choose("Settings", "Theme", name)
        self.page.wait_for_function(
            "name => document.body.dataset.jpThemeName === name", arg=name
        )
        # it covers the page while the theme's colours load
        expect(self.page.locator("#jupyterlab-splash")).to_have_count(0)

    def committed(self) -> set[str]:
        """The questions that are answered, as the file on the disk has it."""
        return {question for _, question in self.answered()}

    def answered(self) -> set[tuple[str, str]]:
        """Lesson and question of every prediction on the disk."""
        if not self._lab.answers.exists():
            return set()
        events = json.loads(self._lab.answers.read_text(encoding="utf-8"))["events"]
        return {
            (one["lesson"], one["question"])
            for one in events
            if one["event"] == "predicted"
        }

    def forget_everything(self) -> None:
        self._lab.answers.unlink(missing_ok=True)

    def start_anew(self) -> None:
        """As a learner who has answered nothing finds the lesson after Run All."""
        self.forget_everything()
        self.run_all()

    def cell_of(self, card: Locator) -> Locator:
        return card.locator("xpath=ancestor::*[contains(@class, 'jp-CodeCell')]")

    @contextmanager
    def narrowed_to(self, width: int) -> Iterator[None]:
        """In a window of this width, with JupyterLab's side bar closed."""
        files = self.page.get_by_role("tab", name="File Browser")
        notebook = self.page.locator(".jp-Notebook")
        self.page.set_viewport_size({"width": width, "height": WINDOW["height"]})
        files.click()
        self.page.wait_for_function(
            "([e, width]) => e.clientWidth > width * 0.8 && e.clientWidth <= width",
            arg=[notebook.element_handle(), width],
        )
        try:
            yield
        finally:
            files.click()
            self.page.set_viewport_size(WINDOW)

    @contextmanager
    def all_in_view(self) -> Iterator[None]:
        """In a window as tall as the notebook, with every cell drawn.

        JupyterLab draws no cell that is out of sight, and its body is 0 px tall. So
        axe would take every text for hidden, and check no contrast at all.
        """
        style = self.page.add_style_tag(
            content="body { height: 100vh } "
            ".jp-Notebook .jp-Cell { content-visibility: visible !important }"
        )
        notebook = self.page.locator(".jp-WindowedPanel-outer")
        height = notebook.evaluate("e => e.scrollHeight") + WINDOW["height"]
        self.page.set_viewport_size({"width": WINDOW["width"], "height": height})
        notebook.evaluate("e => { e.scrollTop = 0 }")
        self.page.wait_for_function(
            "([e, height]) => e.clientHeight >= height && e.scrollTop === 0",
            arg=[notebook.element_handle(), height - WINDOW["height"]],
        )
        try:
            yield
        finally:
            style.evaluate("e => e.remove()")
            self.page.set_viewport_size(WINDOW)

    def assert_axe_is_content(self, theme: str) -> None:
        self.choose_theme(theme)
        with self.all_in_view():
            self.page.evaluate(Axe().axe_script)
            report = self.page.evaluate(RUN_AXE)
        assert report["violations"] == []
        assert report["undecided"] == []
        assert report["cards"] == self.cards.count(), "axe judged no contrast in some"
        assert report["judged"] > 3 * report["cards"]
        assert report["pictureText"] >= 4.5
        assert report["pictureShapes"] >= 3

    def assert_nothing_overflows(self, *, width: int) -> None:
        with self.narrowed_to(width):
            wide = self.cards.evaluate_all(
                """cards => cards
                  .flatMap((card) => [card, card.closest(".jp-OutputArea-output")])
                  .filter((part) => part.scrollWidth > part.clientWidth)
                  .map((part) => part.innerText)"""
            )
        assert wide == []

    def select(self, card: Locator) -> None:
        """Select the cell of a card with the arrow keys alone."""
        self.page.locator(".jp-Notebook").focus()
        self.page.keyboard.press("Escape")
        wanted = int(self.cell_of(card).get_attribute("data-windowed-list-index") or 0)
        for _ in range(100):
            index = self.selected_cell.get_attribute("data-windowed-list-index")
            if int(index or 0) == wanted:
                return
            key = "ArrowDown" if int(index or 0) < wanted else "ArrowUp"
            self.page.keyboard.press(key)
        pytest.fail("the cell was not reached with the arrow keys")

    def tab_to(self, control: Locator) -> None:
        """Press Tab until a control has the focus."""
        for _ in range(150):  # a review has many cards in one cell
            if control.evaluate("e => e === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        pytest.fail(f"{control} was not reached with Tab")

    def hands_on(self, card: Locator) -> "Hands":
        return Hands(self, card)

    def _open(self, name: str) -> None:
        notebook = json.loads((self._lab.lessons / f"{name}.ipynb").read_text())
        self.page.goto(f"{self._lab.url}/lab/tree/lessons/{name}.ipynb?reset")
        n_cells = len(notebook["cells"])
        expect(self.cells).to_have_count(n_cells, timeout=START_SECONDS * 1000)
        is_idle = self.page.get_by_text("| Idle")
        is_idle.wait_for(timeout=START_SECONDS * 1000)

    def _choose(self, menu: str, *items: str) -> None:
        self.page.get_by_role("menuitem", name=menu, exact=True).click()
        *submenus, command = items
        for item in submenus:
            self.page.locator(".lm-Menu").get_by_text(item, exact=True).hover()
        self.page.locator(".lm-Menu").get_by_text(command, exact=True).click()

    def _run(self, start: Callable[[], None]) -> None:
        """Start, and wait until no cell waits for its turn any more."""
        waiting, last = self.counters.filter(has_text="[*]"), self.counters.last
        before = last.text_content() or ""
        start()
        # to "[*]", or at once to the next number where a cell takes no time
        expect(last).not_to_have_text(before, timeout=START_SECONDS * 1000)
        expect(waiting).to_have_count(0, timeout=RUN_SECONDS * 1000)
        self.page.get_by_text("| Idle").wait_for()


class Hands:
    """A learner without a mouse, on one card."""

    def __init__(self, lesson: LessonPage, card: Locator) -> None:
        self.lesson, self.card = lesson, card
        self.press = lesson.page.keyboard.press
        self.status = card.locator("p.ckptlab-status").last
        lesson.select(card)

    def go(self, role: Any, name: str) -> Locator:
        control = self.card.get_by_role(role, name=name)
        self.lesson.tab_to(control)
        return control

    def say_how_sure(self) -> None:
        self.go("radio", "20 %")
        self.press("ArrowRight")
        self.press("ArrowRight")
        expect(self.card.get_by_role("radio", name="80 %")).to_be_checked()

    def commit(self) -> None:
        self.go("button", "Commit")
        self.press("Enter")
        expect(self.status).to_contain_text("Committed: ")
        expect(self.status).to_be_focused()


@pytest.fixture(scope="session")
def chromium() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"Chromium is missing: the PATH has none of {', '.join(BROWSERS)}")
    return found


@pytest.fixture(scope="session")
def home(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the lessons, and one more with a question of every kind."""
    home = tmp_path_factory.mktemp("lab")
    shutil.copytree(root / "lessons", home / "lessons")
    banks = root / "tests" / "course" / "banks"
    shutil.copy(banks / "every_kind.toml", home / "lessons" / "questions")
    cells = ["from ckptlab import lesson, predict, progress, reveal"]
    cells.append('lesson("every_kind")')
    for question, measured in EVERY_KIND.items():
        argument = "" if measured is None else f", measured={measured!r}"
        cells += [f'predict("{question}")', f'reveal("{question}"{argument})']
    _write_notebook(home / "lessons" / "every_kind.ipynb", *cells, "progress()")
    _write_notebook(home / "lessons" / "slow_explorer.ipynb", SLOW_EXPLORER)
    settings = home / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text(
        json.dumps({"fetchNews": "false", "checkForUpdates": False})
    )
    return home


def _write_notebook(path: Path, *cells: str) -> None:
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )
    nbformat.write(notebook, path)


@pytest.fixture(scope="session")
def lab(chromium: str, home: Path) -> Iterator[Lab]:
    """JupyterLab as a newcomer has it: no settings, no trust, no history, no news."""
    with _serve(home, "jupyterlab", "--IdentityProvider.token=") as lab:
        yield lab


@pytest.fixture(scope="module")
def notebook_7(chromium: str, home: Path) -> Iterator[Lab]:
    """Jupyter Notebook 7 on the same lessons."""
    with _serve(home, "notebook", "--IdentityProvider.token=") as lab:
        yield lab


@pytest.fixture(scope="module")
def voila(chromium: str, home: Path) -> Iterator[Lab]:
    """Voila, which runs a lesson and shows its outputs alone."""
    with _serve(home, "voila", "--token=", "--Voila.ip=127.0.0.1") as lab:
        yield lab


@contextmanager
def _serve(home: Path, module: str, *options: str) -> Iterator[Lab]:
    """Run a server on the lessons; the answers are those of this server alone."""
    answers = home / f"progress-{module}.json"
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
        "CKPTLAB_PROGRESS": str(answers),
    }
    port = _free_port()
    if module == "voila":
        place = (f"--port={port}", str(home / "lessons"))
    else:
        place = (
            *("--allow-root", f"--ServerApp.root_dir={home}"),
            *(f"--ServerApp.port={port}", "--ServerApp.port_retries=0"),
        )
    command = (sys.executable, "-m", module, "--no-browser", *options, *place)
    log = home / f"{module}.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        _wait_for(port, server, log)
        yield Lab(f"http://127.0.0.1:{port}", home / "lessons", answers)
    finally:
        server.terminate()  # it shuts its kernels down first
        try:
            server.wait(timeout=20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


# Not for the session: while Playwright runs, no other test could use asyncio.
@pytest.fixture(scope="module")
def page(lab: Lab, chromium: str) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=list(SWITCHES)
        )
        yield browser.new_page(viewport=WINDOW)
        browser.close()


@pytest.fixture(scope="module")
def open_lesson(page: Page, lab: Lab) -> Callable[[str], LessonPage]:
    return lambda name: LessonPage(page, lab, name)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    """Return once somebody listens at the port; fail with the server's own words."""
    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    pytest.fail(f"the server did not start:\n{log.read_text()[-2000:]}")

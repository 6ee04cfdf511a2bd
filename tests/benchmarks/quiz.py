"""From commit to reveal, and a bank of 500 questions: a table in Markdown.

    .venv/bin/python -m tests.benchmarks.quiz

A real kernel is asked over its own sockets, as a browser asks it, and answers with
the message that opens the reveal. Beside it stands the least that a widget can do: a
click on ipywidgets' Button whose callback sets an HTML widget, in the same kernel.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jupyter_client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

from ckptlab.course.questions import load_bank

N_QUESTIONS = 500
ROUNDS = 41
QUESTION = """
[[question]]
id = "q{number}"
topic = "Question {number}"
kind = "choice"
prompt = "Which of **these** is number {number}?"
explanation = "It is {{measured}}, said `{number}`."
answer = "a"
[[question.choice]]
id = "a"
text = "This"
feedback = "Well judged."
[[question.choice]]
id = "b"
text = "That"
feedback = "Not this time."
misconception = "that is this"
"""
PREPARE = """
import ipywidgets
from ckptlab.course import quiz
from ckptlab.course.questions import load_bank
from ckptlab.course.session import SESSION
from pathlib import Path
SESSION.open(load_bank(Path("lesson.toml")))
cards = []
for number in range({rounds}):
    name = f"q{{number}}"
    cards.append((quiz.predict(name), quiz.reveal(name, measured="a")))
button, shown = ipywidgets.Button(), ipywidgets.HTML()
clicks = []
def click(_):
    clicks.append(1)
    shown.value = f"clicked {{len(clicks)}}"
button.on_click(click)
print(*(card.comm.comm_id for pair in cards for card in pair))
print(button.comm.comm_id, shown.comm.comm_id)
"""


def write_bank(folder: Path) -> Path:
    path = folder / "lesson.toml"
    questions = "".join(QUESTION.format(number=n) for n in range(N_QUESTIONS))
    path.write_text(f'title = "Many questions"\n{questions}')
    return path


def median_seconds(run: Callable[[], object]) -> float:
    taken = []
    for _ in range(5):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


@contextmanager
def kernel_in(folder: Path) -> Iterator[BlockingKernelClient]:
    environment = os.environ | {"CKPTLAB_PROGRESS": str(folder / "progress.json")}
    manager, client = start_new_kernel(cwd=str(folder), env=environment)
    try:
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run(client: BlockingKernelClient, code: str) -> list[str]:
    """The lines that code prints."""
    printed: list[str] = []

    def keep(message: Any) -> None:
        if message["msg_type"] == "stream":
            printed.append(message["content"]["text"])

    reply = client.execute_interactive(code, output_hook=keep)
    assert reply["content"]["status"] == "ok", reply["content"]
    return "".join(printed).splitlines()


def seconds_until(
    client: BlockingKernelClient,
    ask: tuple[str, dict[str, Any]],
    answers: Callable[[str, dict[str, Any]], bool],
) -> float:
    """From a message to one widget until the update of another that answers it."""
    comm_id, content = ask
    data = {"method": "custom", "content": content}
    message = client.session.msg("comm_msg", {"comm_id": comm_id, "data": data})
    start = time.perf_counter()
    client.shell_channel.send(message)
    while True:
        heard = client.get_iopub_msg(timeout=10)
        if heard["msg_type"] == "comm_msg":
            said = heard["content"]
            if answers(said["comm_id"], said["data"].get("state", {})):
                return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bank = write_bank(folder)
        load_seconds = median_seconds(lambda: load_bank(bank))
        with kernel_in(folder) as client:
            cards, plain = run(client, PREPARE.format(rounds=ROUNDS))
            ids = cards.split()
            button, shown = plain.split()
            reveals, clicks = [], []
            for asks, compares in zip(ids[::2], ids[1::2], strict=True):
                commit = {"do": "commit", "answer": "b", "confidence": None}
                reveals.append(
                    seconds_until(
                        client,
                        (asks, commit),
                        lambda i, state, wanted=compares: (  # type: ignore[misc]
                            i == wanted and state.get("state", {}).get("isOpen", False)
                        ),
                    )
                )
                clicks.append(
                    seconds_until(
                        client,
                        (button, {"event": "click"}),
                        lambda i, state: i == shown and "value" in state,
                    )
                )
    reveal, click = statistics.median(reveals), statistics.median(clicks)
    print("| what | median | worst |")
    print("|---|---|---|")
    print(f"| commit to reveal | {reveal * 1e3:.1f} ms | {max(reveals) * 1e3:.1f} ms |")
    print(
        f"| a bare widget's click | {click * 1e3:.1f} ms | {max(clicks) * 1e3:.1f} ms |"
    )
    print(f"| load {N_QUESTIONS} questions | {load_seconds * 1e3:.0f} ms | |")
    print(f"\nOne commit costs {reveal / click:.1f} bare clicks, both in one run.")


if __name__ == "__main__":
    main()

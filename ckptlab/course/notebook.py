"""The first cell of a lesson: seeds, figure style, and what machine this is.

The one place of the course that knows torch: it asks for the device and its memory.
"""

import os
import platform
import random
from dataclasses import dataclass
from pathlib import Path

import numpy
import psutil
import torch

from ckptlab.course import figures
from ckptlab.course.card import HtmlCard
from ckptlab.course.markup import escape, table
from ckptlab.course.questions import find_bank
from ckptlab.course.session import SESSION
from ckptlab.units import format_bytes

SEED = 2022
_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


@dataclass(frozen=True)
class Machine:
    """What this notebook runs on.

    Attributes:
        device: where the lessons put their tensors, "cuda" or "cpu".
        device_name: of the GPU, or of the processor's family.
        device_memory_bytes: of the GPU, or what this process may use of the RAM.
        n_cores: processor cores that this process may use.
    """

    device: str
    device_name: str
    device_memory_bytes: int
    n_cores: int


def describe_machine() -> Machine:
    """What this notebook runs on; a container's memory limit counts as its memory."""
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        return Machine("cuda", properties.name, properties.total_memory, _count_cores())
    name = platform.processor() or platform.machine()
    return Machine("cpu", name, _usable_memory_bytes(), _count_cores())


class LessonCard(HtmlCard):
    """Which lesson is open, on what machine, and how far the learner is.

    Attributes:
        machine: what this notebook runs on.
    """

    def __init__(
        self, *, machine: Machine, live_html: str, twin_html: str, twin_text: str
    ):
        super().__init__(live_html=live_html, twin_html=twin_html, twin_text=twin_text)
        self.machine = machine


def lesson(name: str) -> LessonCard:
    """Open a lesson: fix the seeds, set the figure style, load its questions.

    Args:
        name: of the notebook, such as "01_weights_are_not_the_main_cost".

    Raises:
        UnknownQuestionError: no such lesson; the message lists those there are.
        QuestionError: its question bank has a fault.
    """
    bank = find_bank(name)
    random.seed(SEED)
    numpy.random.seed(SEED)
    torch.manual_seed(SEED)
    figures.use_lesson_style()
    SESSION.open(bank)
    questions = bank.predicted
    records = SESSION.progress.records()
    machine = describe_machine()
    heading = f"<p><strong>Lesson {escape(name[:2])}: {escape(bank.title)}</strong></p>"
    n_done = sum(1 for q in questions if (r := records.get((name, q))) and r.prediction)
    done = f"<p>Predictions committed: {n_done} of {len(questions)}.</p>"
    if SESSION.progress.trouble:
        done += f"<p><strong>⚠ {escape(SESSION.progress.trouble)}</strong></p>"
    plan = f"<p>Predictions to commit: {len(questions)}.</p>"
    return LessonCard(
        machine=machine,
        live_html=heading + _describe(machine) + done,
        twin_html=heading
        + plan
        + "<p>Run this cell to see which machine you are on.</p>",
        twin_text=f"Lesson {name[:2]}: {bank.title}",
    )


def _describe(machine: Machine) -> str:
    is_gpu = machine.device == "cuda"
    rows = [
        ("Device", f"{'GPU' if is_gpu else 'CPU'}, {machine.device_name}"),
        ("Memory", format_bytes(machine.device_memory_bytes)),
        ("Processor cores", str(machine.n_cores)),
    ]
    meaning = (
        "Tensors live on the GPU. Times are those of your GPU."
        if is_gpu
        else "No GPU is needed. Bytes are the same as on a GPU; times are longer."
    )
    return table(("This machine", ""), rows) + f"<p>{meaning}</p>"


def _usable_memory_bytes() -> int:
    """RAM, or less where a container or Binder (MEM_LIMIT) allows less."""
    limits = [psutil.virtual_memory().total]
    told = [os.environ.get("MEM_LIMIT", "")]
    for path in _CGROUP_LIMITS:
        try:
            told.append(path.read_text().strip())
        except OSError:
            continue
    return min(limits + [int(text) for text in told if text.isdigit()])


def _count_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

"""Kill a thousand processes while they write progress, and count what was lost.

    python killed_writer.py FOLDER N_KILLS SEED

Each process tells through a pipe what `add` has returned from. Prints one JSON object:
how many were told, those that the file lacks, files that are no JSON, refusals, and
how many kills hit a write between its first byte and its last step.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from ckptlab.course.progress import ProgressFile
from ckptlab.course.record import Event

LONGEST_LIFE = 0.012
"""Seconds: a few writes."""

KILLS_A_FILE = 50
"""A file that grows without end would slow the writers down."""


def write_until_killed(path: Path, me: int, pipe: int) -> None:
    progress = ProgressFile(path)
    for number in range(1_000_000):
        progress.add(Event("lesson", f"{me}-{number}", "predicted", "a" * 50))
        told = f"refused {progress.trouble}" if progress.trouble else f"{me}-{number}"
        os.write(pipe, f"{told}\n".encode())


def kill_one(path: Path, me: int, life: float) -> list[str]:
    """What a process told in its short life."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            write_until_killed(path, me, writing)
        finally:
            os._exit(1)
    os.close(writing)
    # every other one has surely told something, on the busiest machine too
    first = os.read(reading, 1) if me % 2 else b""
    time.sleep(life)
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status), "the writer ended before it was killed"
    with open(reading, "rb") as pipe:
        return (first + pipe.read()).decode().splitlines()


def kept_questions(path: Path) -> set[str] | None:
    """What the file holds, read without the code under test; None: it is broken."""
    try:
        content = json.loads(path.read_bytes()) if path.exists() else {"events": []}
    except ValueError:
        return None
    return {event["question"] for event in content["events"]}


def last_write(unfinished: Path) -> int:
    return unfinished.stat().st_mtime_ns if unfinished.exists() else 0


def main(folder: Path, n_kills: int, seed: int) -> None:
    chance = random.Random(seed)
    n_told = n_hits = n_broken = 0
    lost: list[str] = []
    refused: list[str] = []
    for first in range(0, n_kills, KILLS_A_FILE):
        path = folder / f"progress-{first}.json"
        unfinished = path.with_name(f"{path.name}.new")
        told: set[str] = set()
        for me in range(first, min(first + KILLS_A_FILE, n_kills)):
            before = last_write(unfinished)
            lines = kill_one(path, me, chance.uniform(0, LONGEST_LIFE))
            n_hits += last_write(unfinished) not in (0, before)
            refused += [line for line in lines if line.startswith("refused")]
            told |= set(lines) - set(refused)
            kept = kept_questions(path)
            n_broken += kept is None
            lost += sorted(told - (kept or set()))
        n_told += len(told)
    result = {
        "told": n_told,
        "hits": n_hits,
        "broken": n_broken,
        "lost": sorted(set(lost)),
        "refused": refused,
        "set_aside": len(list(folder.glob("*.broken-*"))),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

"""Check the question banks, and say where each question is used.

    python -m ckptlab.course              the lessons of the working directory
    python -m ckptlab.course lessons      those of another folder

Ends with 1 when a bank has a fault, a question is unused or one is missing.
"""

import argparse
import sys
from pathlib import Path

from ckptlab.course.usage import Usage, check_lessons


def main(arguments: list[str] | None = None) -> int:
    """Print the report; returns the number to exit with."""
    parser = argparse.ArgumentParser(
        prog="python -m ckptlab.course", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("folder", nargs="?", type=Path, help="folder of the lessons")
    told = parser.parse_args(arguments).folder
    folder = told or (Path("lessons") if Path("lessons").is_dir() else Path())
    lessons = check_lessons(folder)
    if not lessons:
        print(f"no lessons in {folder.resolve()}; name their folder", file=sys.stderr)
        return 1
    for usage in lessons:
        print("\n".join(_report(usage)))
    n_faults = sum(len(usage.faults) for usage in lessons)
    n_questions = sum(len(u.bank.questions) for u in lessons if u.bank)
    print(f"questions: {n_questions}, lessons: {len(lessons)}, faults: {n_faults}")
    return 1 if n_faults else 0


def _report(usage: Usage) -> list[str]:
    lines = [usage.lesson + (f": {usage.bank.title}" if usage.bank else "")]
    for question in usage.bank.questions.values() if usage.bank else ():
        places = ", ".join(f"{u.call} in cell {u.cell}" for u in usage.of(question.id))
        lines.append(f"  {question.id:<24} {question.kind:<10} {places or 'unused'}")
    return [*lines, *(f"  FAULT: {fault}" for fault in usage.faults), ""]


if __name__ == "__main__":
    sys.exit(main())

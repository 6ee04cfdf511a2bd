"""Execute every lesson and save it with its outputs, the static twins alone.

    python lessons/save.py            all lessons
    python lessons/save.py 01         those whose name begins so

Widget views are dropped (their ids are random, and GitHub refuses widgets
without state), as are versions of the machine. The same run saves the same
file.
"""

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from ckptlab.course.card import WIDGET_VIEW

LESSONS = Path(__file__).resolve().parent


def save_lesson(path: Path) -> None:
    """Run a lesson from its first cell to its last, and write it back."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": str(LESSONS)}},
        store_widget_state=False,
        coalesce_streams=True,  # or they split by how fast the machine is
    )
    client.execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", ()):
            output.get("data", {}).pop(WIDGET_VIEW, None)
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {
                "display_name": "Python 3",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"name": "python"},
        }
    )
    nbformat.write(notebook, path)


def main() -> None:
    """Save the lessons that the command line names."""
    wanted = sys.argv[1:] or [""]
    paths = sorted(p for name in wanted for p in LESSONS.glob(f"{name}*.ipynb"))
    if not paths:
        sys.exit(f"no lesson begins with {' or '.join(wanted)}; see {LESSONS}")
    with tempfile.TemporaryDirectory() as folder:
        # nobody's own answers may show in a saved lesson
        os.environ["CKPTLAB_PROGRESS"] = str(Path(folder) / "progress.json")
        for path in paths:
            print(f"{path.name} …", flush=True)
            save_lesson(path)


if __name__ == "__main__":
    main()

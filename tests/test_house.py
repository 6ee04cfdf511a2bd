"""The rules of the house: what may import what, and what stays light."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ckptlab
from ckptlab import errors

HEAVY = ("torch", "matplotlib", "ipywidgets", "anywidget", "numpy")
COURSE = (
    *("quiz", "figures", "explorers", "grading", "questions", "progress", "markup"),
    *("kinds", "summary", "usage", "session"),
)
PLANNING = ("chain", "plan", "replay", "planners")
WITHOUT_TORCH = [f"course.{m}" for m in COURSE] + [f"planning.{m}" for m in PLANNING]


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def tool(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def modules_after(statement: str, *, folder: Path) -> set[str]:
    """Top-level modules that a fresh interpreter has after a statement."""
    code = f"{statement}\nimport sys; print(*sys.modules)"
    result = run(sys.executable, "-c", code, folder=folder)
    assert result.returncode == 0, result.stderr
    return {name.partition(".")[0] for name in result.stdout.split()}


@pytest.fixture
def copy_of_house(root: Path, tmp_path: Path) -> Path:
    shutil.copytree(root / "ckptlab", tmp_path / "ckptlab")
    shutil.copy(root / "pyproject.toml", tmp_path)
    return tmp_path


def test_import_contracts_hold(root: Path) -> None:
    result = run(tool("lint-imports"), folder=root)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        (
            "course/grading.py",
            "def f(): import torch",
            "The course never reaches torch",
        ),
        (
            "course/quiz.py",
            "from ckptlab.memory import saved",
            "The course never reaches torch",
        ),
        ("memory/saved.py", "from ckptlab.course import quiz", "Arrows point down"),
        ("planning/replay.py", "def f(): import torch", "Planning is arithmetic"),
        ("units.py", "import numpy", "The ground stands on nothing heavy"),
    ],
)
def test_import_contracts_can_fail(
    copy_of_house: Path, module: str, line: str, contract: str
) -> None:
    path = copy_of_house / "ckptlab" / module
    path.write_text(path.read_text() + f"\n{line}\n")
    result = run(tool("lint-imports"), "--no-cache", folder=copy_of_house)
    assert result.returncode != 0
    assert any(
        contract in row and "BROKEN" in row for row in result.stdout.splitlines()
    )


def test_importing_ckptlab_loads_nothing_heavy(root: Path) -> None:
    assert not modules_after("import ckptlab", folder=root) & set(HEAVY)


def test_light_import_can_fail(copy_of_house: Path) -> None:
    path = copy_of_house / "ckptlab" / "__init__.py"
    path.write_text(path.read_text() + "\nfrom ckptlab.course import figures\n")
    assert modules_after("import ckptlab", folder=copy_of_house) & set(HEAVY)


@pytest.mark.parametrize("module", WITHOUT_TORCH)
def test_planning_and_course_never_load_torch(root: Path, module: str) -> None:
    loaded = modules_after(f"import ckptlab.{module}", folder=root)
    assert "torch" not in loaded


@pytest.mark.parametrize("name", ckptlab.__all__)
def test_every_public_name_loads_on_first_touch_and_has_a_docstring(name: str) -> None:
    assert getattr(ckptlab, name).__doc__
    assert name in dir(ckptlab)


def test_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'saved_tensor'"):
        _ = ckptlab.saved_tensor


def test_type_checkers_see_exactly_the_public_names(root: Path) -> None:
    tree = ast.parse((root / "ckptlab" / "__init__.py").read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        (alias.name, f"{node.module}.{alias.name}")
        for node in ast.walk(guarded)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    homes = {(n, f"ckptlab.{home}.{n}") for n, home in ckptlab._HOMES.items()}
    assert seen == homes | {("models", "ckptlab.models")}


def test_error_tree_is_drawn_as_it_is() -> None:
    classes = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and value is not errors.CkptlabError
    ]
    drawn = [
        line.split("── ")[1].split()[0]
        for line in (errors.__doc__ or "").splitlines()
        if "── " in line
    ]
    assert drawn == [error.__name__ for error in classes]
    assert all(issubclass(error, errors.CkptlabError) for error in classes)


@pytest.mark.parametrize(
    "command",
    [("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy",)],
    ids=["ruff check", "ruff format", "mypy"],
)
def test_code_is_clean(root: Path, command: tuple[str, ...]) -> None:
    result = run(tool(command[0]), *command[1:], folder=root)
    assert result.returncode == 0, result.stdout


def test_modules_and_functions_stay_short(root: Path) -> None:
    too_long = []
    for path in sorted((root / "ckptlab").rglob("*.py")):
        text = path.read_text()
        if len(text.splitlines()) > 400:
            too_long.append(path.name)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                n_lines = (node.end_lineno or 0) - node.lineno + 1
                if n_lines > 60:
                    too_long.append(f"{path.name}:{node.name}")
    assert too_long == []

"""What a newcomer installs: README, Binder and CI name the same environment."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path


def pins(path: Path) -> dict[str, str]:
    lines = path.read_text().splitlines()
    return dict(line.split("==") for line in lines if re.match(r"[\w-]+==", line))


def readme_commands(root: Path) -> list[str]:
    return re.findall(r"```sh\n(.*?)\n```", (root / "README.md").read_text(), re.S)


def test_course_environment_pins_every_package_and_includes_ckptlab(root: Path) -> None:
    lines = (root / "requirements.txt").read_text().splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    assert wanted[-1] == "-e ."
    assert all(re.fullmatch(r"[\w-]+==[\w.]+", line) for line in wanted[:-1])


def test_pins_cover_every_dependency_of_the_library(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    names = {re.match(r"[\w-]+", line)[0] for line in project["dependencies"]}
    assert names <= set(pins(root / "requirements.txt"))


def test_installed_versions_are_the_pinned_ones(root: Path) -> None:
    from importlib.metadata import version

    for file in ("requirements.txt", "tests/requirements.txt"):
        for name, pinned in pins(root / file).items():
            assert version(name).partition("+")[0] == pinned, name


def test_binder_installs_the_course_environment_without_cuda(root: Path) -> None:
    script = (root / "binder" / "postBuild").read_text()
    assert (root / "binder" / "postBuild").stat().st_mode & 0o111
    # the versions are those of requirements.txt because it is that very file
    assert "--requirements requirements.txt" in script
    assert "--torch-backend=cpu" in script
    others = {path.name for path in (root / "binder").iterdir()}
    assert others == {"postBuild", "runtime.txt"}
    assert not set(re.findall(r"([\w-]+)==", script)) - {"uv"}


def test_binder_badge_opens_lesson_00(root: Path) -> None:
    badge = re.search(r"mybinder\.org/v2/gh/(\S+)\)", (root / "README.md").read_text())
    assert badge is not None
    assert badge[1].endswith("HEAD?labpath=lessons%2F00_start_here.ipynb")
    assert (root / "lessons" / "00_start_here.ipynb").is_file()


def test_readme_opens_lesson_00_and_ci_runs_its_test_command(root: Path) -> None:
    commands = readme_commands(root)
    assert commands[0].endswith("jupyter lab lessons/00_start_here.ipynb")
    script = (root / ".ci" / "run").read_text()
    extract = script[script.index('command="$(') : script.index("test -n")]
    shell = f'root="{root}"\n{extract}\nprintf %s "$command"'
    bash = shutil.which("bash")
    assert bash is not None
    taken = subprocess.run([bash, "-c", shell], capture_output=True, text=True)
    assert taken.stdout == commands[-1]
    assert taken.stdout.endswith(".venv/bin/pytest")


def test_code_in_the_readme_runs(root: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(), re.S)
    assert len(blocks) >= 2
    namespace: dict[str, object] = {}
    for block in blocks:  # each goes on where the one before ended
        exec(block, namespace)


def test_every_lesson_stands_in_the_readme_and_every_link_resolves(root: Path) -> None:
    text = (root / "README.md").read_text()
    links = re.findall(r"\]\((?!http)([^)#]+)\)", text)
    assert all((root / link).exists() for link in links)
    lessons = {str(p.relative_to(root)) for p in (root / "lessons").glob("*.ipynb")}
    assert lessons <= set(links)


def test_readme_maps_every_lesson_with_a_picture_and_a_sentence(root: Path) -> None:
    text = (root / "README.md").read_text()
    for path in (root / "lessons").glob("*.ipynb"):
        (row,) = (
            line
            for line in text.splitlines()
            if f"(lessons/{path.name})" in line and line.startswith("| <img")
        )
        picture = f"lessons/pictures/{path.name[:2]}.png"
        assert f'src="{picture}"' in row
        assert 'alt="' in row
        assert (root / picture).stat().st_size < 100_000
        assert row.rstrip(" |").endswith(".")


def test_readme_shows_the_saved_trade_off_with_machine_and_date(root: Path) -> None:
    readme = (root / "README.md").read_text()
    results = (root / "tests" / "benchmarks" / "results.md").read_text()
    shown = readme.partition("<!-- begin: trade_off -->")[2]
    shown, found, _ = shown.partition("<!-- end: trade_off -->")
    assert found
    head, _, table = shown.strip().partition("\n\n")
    assert re.fullmatch(r"Measured on .*PyTorch [\w.+]+, .* \d{4}-\d\d-\d\d\.", head)
    assert head in results
    assert table in results
    assert table.count("\n| ") > 20

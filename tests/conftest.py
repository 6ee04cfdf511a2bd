"""What all tests share: answers that are nobody's, and no skips where CI runs."""

import os
import tempfile
from pathlib import Path

import pytest

# Before any kernel starts: tests and lessons must never touch the learner's answers.
_folder = tempfile.TemporaryDirectory(prefix="ckptlab-tests-")
os.environ["CKPTLAB_PROGRESS"] = str(Path(_folder.name) / "progress.json")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """In CI a skip is a failure, but for the GPU tests."""
    report = yield
    if os.environ.get("CI") and report.skipped and not item.get_closest_marker("gpu"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report

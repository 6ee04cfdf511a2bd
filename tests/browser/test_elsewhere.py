"""The same cards in Jupyter Notebook 7 and under Voila, driven once each."""

import json
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Page, expect

if TYPE_CHECKING:
    from conftest import Lab

pytestmark = pytest.mark.browser

START_MS = 60_000


def predict_and_compare(page: Page, lab: "Lab") -> None:
    """A number by the keyboard, and an answer that is shown without a prediction."""
    asks = page.locator(".ckptlab-card[data-asks=amount]")
    reveals = page.locator(".ckptlab-card[data-reveals=amount]")
    expect(asks).to_be_visible(timeout=START_MS)
    expect(reveals).to_have_attribute("data-open", "false", timeout=START_MS)
    asks.get_by_role("textbox", name="How large is the file?").focus()
    page.keyboard.type("1 GiB")
    page.keyboard.press("Enter")
    expect(asks.locator(".ckptlab-status")).to_contain_text("Committed: 1 GiB.")
    expect(asks.locator(".ckptlab-status")).to_be_focused()
    expect(reveals).to_contain_text("≈ Close. Too low by a factor of 1.5.")
    expect(reveals).to_contain_text("There is more in it.")
    other = page.locator(".ckptlab-card[data-reveals=curve]")
    other.get_by_role("button", name="Show me anyway").press("Enter")
    expect(other).to_contain_text("Opened without a prediction.")
    expect(other.get_by_role("img")).to_be_visible()
    events = json.loads(lab.answers.read_text())["events"]
    told = [(one["question"], one["event"]) for one in events]
    assert told == [
        ("amount", "predicted"),
        ("amount", "revealed"),
        ("curve", "shown"),
    ]


def test_notebook_7_predicts_and_compares(page: Page, notebook_7: "Lab") -> None:
    page.goto(f"{notebook_7.url}/notebooks/lessons/every_kind.ipynb")
    idle = page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]")
    idle.wait_for(timeout=START_MS)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.locator(".lm-Menu").get_by_text("Run All Cells", exact=True).click()
    predict_and_compare(page, notebook_7)


def test_voila_predicts_and_compares(page: Page, voila: "Lab") -> None:
    page.goto(f"{voila.url}/voila/render/every_kind.ipynb", timeout=2 * START_MS)
    predict_and_compare(page, voila)

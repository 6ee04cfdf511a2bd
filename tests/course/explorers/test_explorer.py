"""An explorer draws what is chosen, and nothing that is not on offer."""

from typing import Any

import pytest

from ckptlab.course.explorers.explorer import Chosen, Control, Explorer

EVIL = "<img src=x onerror=alert(1)>"
CONTROLS = (
    Control("size", "Size (MiB)", (1, 2, 1024), 2),
    Control("kind", "Kind", ("a", "b"), "a", ("the first", "the second"), "choice"),
)


def draw(chosen: Chosen) -> tuple[str, str]:
    if chosen == {"size": 1024, "kind": "b"}:
        raise ValueError(EVIL)
    return f"<svg>{chosen['size']}</svg>", f"{chosen['size']} of kind {chosen['kind']}"


def explorer() -> Explorer:
    return Explorer(draw, controls=CONTROLS, twin="<table></table>")


def send(card: Explorer, content: Any) -> None:
    data = {"method": "custom", "content": content}
    card._handle_msg({"content": {"data": data}, "buffers": []})


def test_it_starts_with_the_start_of_every_control() -> None:
    card = explorer()
    assert (card.picture, card.summary) == ("<svg>2</svg>", "2 of kind a")
    assert [control["start"] for control in card.controls] == [2, "a"]
    assert card.controls[0]["texts"] == ["1", "2", "1,024"]


def test_message_draws_what_it_chooses_and_answers_with_its_number() -> None:
    card = explorer()
    send(card, {"chosen": {"size": 1, "kind": "b"}, "number": 7})
    assert (card.picture, card.summary) == ("<svg>1</svg>", "1 of kind b")
    assert card.answered == 7


def test_picture_words_and_number_come_in_one_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    card, sent = explorer(), []
    monkeypatch.setattr(card, "send_state", lambda key: sent.append(set(key)))
    send(card, {"chosen": {"size": 1}, "number": 1})
    assert sent == [{"picture", "summary", "answered"}]


@pytest.mark.parametrize(
    "content",
    [
        *(None, [], "x", {}, {"chosen": None}, {"chosen": [1]}, {"number": "3"}),
        *({"chosen": {"size": 3}}, {"chosen": {"size": EVIL}}, {"chosen": {EVIL: 1}}),
        *({"chosen": {"size": [1]}}, {"chosen": {"size": {}}}, {"number": None}),
    ],
)
def test_strange_message_changes_nothing(content: object) -> None:
    card = explorer()
    send(card, content)
    assert (card.chosen, card.answered) == ({"size": 2, "kind": "a"}, 0)
    assert card.summary == "2 of kind a"


def test_what_cannot_be_drawn_is_said_in_words_and_the_number_comes_back() -> None:
    card = explorer()
    send(card, {"chosen": {"size": 1024, "kind": "b"}, "number": 3})
    assert card.summary == f"This could not be drawn: {EVIL}"
    assert card.answered == 3
    send(card, {"chosen": {"size": 1}, "number": 4})
    assert card.summary == "1 of kind b"


def test_twin_is_that_of_the_start_whatever_was_chosen() -> None:
    card = explorer()
    send(card, {"chosen": {"size": 1}, "number": 1})
    bundle = card._repr_mimebundle_()
    assert bundle["text/html"] == "<p>2 of kind a</p>\n<table></table>"
    assert bundle["text/plain"] == "2 of kind a"

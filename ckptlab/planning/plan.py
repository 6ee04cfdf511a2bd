"""What to keep: the plan notation, parsed, checked, printed.

    1 2 3 4            store everything
    (1 2) (3 4)        keep the outputs of 2 and 4, recompute those of 1 and 3
    1 (2 (3 4) 5) 6    parentheses nest

A bare number keeps everything that this stage saves. A parenthesis discards what
is inside during the forward pass, keeps its own input, and runs the inside again,
by its own inner plan, when the backward pass arrives.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Union

from ckptlab.errors import PlanError

Item = Union[int, "Plan"]
"""A bare stage's number, or a parenthesis as the plan of its inside."""

_TOKEN = re.compile(r"\s*(\d+|[()]|\S)")


@dataclass(frozen=True, eq=False)
class Plan:
    """A checked plan: every stage from the first to the last, once and in order.

    Make one with `Plan.parse`, or from `items`: bare numbers, and plans for
    parentheses. Two plans are equal when their texts are.

    Example:
        >>> plan = Plan.parse("(1 2) (3 4)")
        >>> plan.kept, plan.recomputed
        ((2, 4), (1, 3))
    """

    items: tuple[Item, ...]

    @classmethod
    def parse(cls, text: str) -> "Plan":
        """The plan that a line of text writes.

        Raises:
            PlanError: it shows the text with a mark under the fault.
        """
        if not isinstance(text, str):
            raise PlanError(
                f"a plan is a text such as '(1 2) 3', not {type(text).__name__}"
            )
        return _parse(text)

    @cached_property
    def _text(self) -> str:
        # no recursion, here and below: parentheses may nest as deep as there are stages
        parts: list[str] = []
        todo: list[Item | str] = list(reversed(self.items))
        while todo:
            item = todo.pop()
            if isinstance(item, Plan):
                parts.append(" (")
                todo += [")", *reversed(item.items)]
            else:
                parts.append(item if isinstance(item, str) else f" {item}")
        return "".join(parts).replace("( ", "(").lstrip()

    def __str__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, Plan) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return f"Plan({str(self)!r})"

    @property
    def stages(self) -> range:
        """The numbers of its stages; a parenthesis has a range that starts later."""
        return range(_first(self.items[0]), _last(self.items[-1]) + 1)

    @property
    def kept(self) -> tuple[int, ...]:
        """Stages whose output is there when the backward pass begins."""
        return tuple(_last(item) for item in self.items)

    @property
    def recomputed(self) -> tuple[int, ...]:
        """Stages whose output is discarded and made again, as the article counts."""
        kept = set(self.kept)
        return tuple(number for number in self.stages if number not in kept)


def _first(item: Item) -> int:
    while isinstance(item, Plan):
        item = item.items[0]
    return item


def _last(item: Item) -> int:
    while isinstance(item, Plan):
        item = item.items[-1]
    return item


def _parse(text: str) -> Plan:
    open_items: list[list[Item]] = [[]]
    open_marks: list[int] = []
    expected = 1
    for token, mark in _tokens(text):
        if token == "(":
            open_items.append([])
            open_marks.append(mark)
        elif token == ")":
            if not open_marks:
                raise _fault(text, mark, "this parenthesis was never opened; remove it")
            inside = open_items.pop()
            if not inside:
                raise _fault(text, mark, "this parenthesis is empty; put stages in it")
            open_marks.pop()
            open_items[-1].append(Plan(tuple(inside)))
        elif token.isdecimal():
            if int(token) != expected:
                raise _fault(text, mark, _explain_number(int(token), expected))
            open_items[-1].append(expected)
            expected += 1
        else:
            allowed = "a plan has numbers, parentheses and spaces only"
            raise _fault(text, mark, f"{token!r} has no meaning here; {allowed}")
    if open_marks:
        raise _fault(text, open_marks[-1], "this parenthesis is never closed; close it")
    if expected == 1:
        raise _fault(text, 0, "the plan is empty; write at least one stage, such as 1")
    return Plan(tuple(open_items[0]))


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    for match in _TOKEN.finditer(text):
        yield match[1], match.start(1)


def _explain_number(number: int, expected: int) -> str:
    if number == 0:
        return "there is no stage 0; stages are numbered from 1"
    if number < expected:
        return f"stage {number} stands here a second time; stage {expected} comes next"
    return f"stage {number} comes too early; stage {expected} is missing before it"


def _fault(text: str, mark: int, what: str) -> PlanError:
    # a tab or line break would push the mark away from its place
    shown = re.sub(r"\s", " ", text)
    return PlanError(f"{what}\n    {shown}\n    {' ' * mark}^")

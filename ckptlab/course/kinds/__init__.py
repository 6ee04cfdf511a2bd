"""The kinds of questions, one file each; `question.py` says what a kind must do."""

from ckptlab.course.kinds.choice import ChoiceQuestion
from ckptlab.course.kinds.exercise import Exercise
from ckptlab.course.kinds.number import NumberQuestion, SliderQuestion
from ckptlab.course.kinds.order import OrderQuestion
from ckptlab.course.kinds.question import Question
from ckptlab.course.kinds.reflection import Reflection
from ckptlab.course.kinds.sketch import SketchQuestion

KINDS: dict[str, type[Question]] = {
    kind.kind: kind
    for kind in (
        ChoiceQuestion,
        NumberQuestion,
        SliderQuestion,
        OrderQuestion,
        SketchQuestion,
        Reflection,
        Exercise,
    )
}
"""By the name that a bank calls them."""

__all__ = ["KINDS", "Question"]

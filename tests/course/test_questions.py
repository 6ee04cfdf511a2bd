"""Banks: whatever is wrong is told with file, question and key."""

import re
from pathlib import Path

import pytest

from ckptlab.course.kinds import KINDS, Question
from ckptlab.course.kinds.choice import ChoiceQuestion
from ckptlab.course.kinds.exercise import Exercise
from ckptlab.course.kinds.number import NumberQuestion, SliderQuestion
from ckptlab.course.kinds.order import OrderQuestion
from ckptlab.course.kinds.reflection import Reflection
from ckptlab.course.kinds.sketch import SketchQuestion
from ckptlab.course.questions import Bank, bank_paths, find_bank, load_bank
from ckptlab.course.toml_table import placeholders
from ckptlab.errors import QuestionError, UnknownQuestionError

BANKS = sorted((Path(__file__).parents[2] / "lessons" / "questions").glob("*.toml"))
every_bank = pytest.mark.parametrize("path", BANKS, ids=lambda path: path.stem)

GOOD = """
title = "A lesson"

[[question]]
id = "pick"
topic = "Picking one"
kind = "choice"
confidence = true
prompt = "Which?"
explanation = "Because of {measured}."
answer = "a"
[[question.choice]]
id = "a"
text = "This"
feedback = "Well judged."
[[question.choice]]
id = "b"
text = "That"
feedback = "You may have thought of {weights}."
misconception = "that is this"

[[question]]
id = "many"
topic = "Ticking all"
kind = "choice"
prompt = "Which of them?"
explanation = "Those that do."
answer = ["here", "there"]
[[question.choice]]
id = "here"
text = "Here"
feedback = "It is here."
[[question.choice]]
id = "there"
text = "There"
feedback = "It is there."
[[question.choice]]
id = "nowhere"
text = "Nowhere"
feedback = "It is somewhere."
misconception = "what is unseen is nowhere"

[[question]]
id = "amount"
topic = "Kibibytes"
kind = "number"
unit = "bytes"
answer = 1024
right_within = 1.2
near_within = 3.0
prompt = "How much?"
explanation = "A kibibyte; braces are {{doubled}}."
too_low = "More."
too_high = "Less."

[[question]]
id = "height"
topic = "Heights"
kind = "slider"
unit = "count"
answer = 300
low = 30
high = 3000
scale = "ratio"
steps = 20
prompt = "How high?"
explanation = "So high."
too_low = "Higher."
too_high = "Lower."

[[question]]
id = "day"
topic = "Days"
kind = "order"
prompt = "In which order?"
explanation = "The sun decides."
answer = ["dawn", "noon", "dusk"]
[[question.item]]
id = "dusk"
text = "Dusk"
feedback = "Dusk is last."
[[question.item]]
id = "dawn"
text = "Dawn"
feedback = "Dawn is first."
[[question.item]]
id = "noon"
text = "Noon"
feedback = "Noon is between."

[[question]]
id = "curve"
topic = "Squares"
kind = "sketch"
x_label = "Side"
y_label = "Area"
unit = "times"
at = [1, 2, 4]
answer = [1, 4, 16.5]
low = 0.5
high = 100
prompt = "Sketch it."
explanation = "It is a square."
too_low = "More at {at}."
too_high = "Less at {at}."

[[question]]
id = "words"
topic = "Bread"
kind = "reflection"
prompt = "Why?"
explanation = "Yeast."
[[question.hint]]
text = "It is alive."
[[question.criterion]]
id = "gas"
text = "Gas."
[[question.criterion]]
id = "gluten"
text = "Gluten."

[[question]]
id = "task"
topic = "A task"
kind = "exercise"
answer = 7
prompt = "Find it."
explanation = "It is {attempt}."
too_low = "Go higher than {attempt}."
too_high = "Go lower than {attempt}."
"""


def write(folder: Path, text: str | bytes, name: str = "faulty.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def message_of(path: Path) -> str:
    with pytest.raises(QuestionError) as caught:
        load_bank(path)
    return str(caught.value)


def bank(folder: Path) -> Bank:
    return load_bank(write(folder, GOOD, "good.toml"))


def remarks(question: Question) -> list[str]:
    """All feedback that a question holds."""
    if isinstance(question, Exercise):
        return [question.too_low, question.too_high]
    return [text for _, text in question.remarks()]


# -- what a good bank says -----------------------------------------------------------


def test_bank_is_named_after_its_file_and_keeps_the_order(tmp_path: Path) -> None:
    loaded = bank(tmp_path)
    assert (loaded.lesson, loaded.title) == ("good", "A lesson")
    assert list(loaded.questions) == (
        "pick many amount height day curve words task".split()
    )
    assert {question.kind for question in loaded.questions.values()} == set(KINDS)


def test_every_question_holds_what_all_kinds_share(tmp_path: Path) -> None:
    pick, many = map(bank(tmp_path).question, ("pick", "many"))
    assert (pick.topic, pick.prompt) == ("Picking one", "Which?")
    assert pick.explanation == "Because of {measured}."
    assert pick.asks_confidence
    assert not many.asks_confidence


def test_choice_question_holds_its_choices_in_order(tmp_path: Path) -> None:
    pick = bank(tmp_path).question("pick")
    assert isinstance(pick, ChoiceQuestion)
    assert [choice.id for choice in pick.choices] == ["a", "b"]
    assert [choice.misconception for choice in pick.choices] == ["", "that is this"]
    assert (pick.answers, pick.takes_several) == (("a",), False)


def test_list_of_answers_takes_several_choices(tmp_path: Path) -> None:
    many = bank(tmp_path).question("many")
    assert isinstance(many, ChoiceQuestion)
    assert (many.answers, many.takes_several) == (("here", "there"), True)
    one = GOOD.replace('answer = ["here", "there"]', 'answer = ["here"]').replace(
        'feedback = "It is there."', 'feedback = "No."\nmisconception = "It is."'
    )
    many = load_bank(write(tmp_path, one)).question("many")
    assert isinstance(many, ChoiceQuestion)
    assert (many.answers, many.takes_several) == (("here",), True)


def test_number_question_holds_its_unit_key_and_bounds(tmp_path: Path) -> None:
    amount = bank(tmp_path).question("amount")
    assert isinstance(amount, NumberQuestion)
    assert (amount.unit, amount.answer) == ("bytes", 1024)
    bounds = amount.tolerance
    assert (bounds.right_within, bounds.near_within) == (1.2, 3.0)
    assert (bounds.too_low, bounds.too_high) == ("More.", "Less.")


def test_bounds_have_defaults(tmp_path: Path) -> None:
    text = re.sub(r"(right|near)_within = .*\n", "", GOOD)
    amount = load_bank(write(tmp_path, text)).question("amount")
    assert isinstance(amount, NumberQuestion)
    bounds = amount.tolerance
    assert (bounds.right_within, bounds.near_within) == (1.1, 2.0)


def test_slider_question_holds_its_scale(tmp_path: Path) -> None:
    height = bank(tmp_path).question("height")
    assert isinstance(height, SliderQuestion)
    scale = height.scale
    assert (scale.low, scale.high, scale.scale, scale.steps) == (30, 3000, "ratio", 20)


def test_slider_multiplies_in_40_steps_unless_told(tmp_path: Path) -> None:
    text = re.sub(r"(scale|steps) = .*\n", "", GOOD)
    height = load_bank(write(tmp_path, text)).question("height")
    assert isinstance(height, SliderQuestion)
    assert (height.scale.scale, height.scale.steps) == ("ratio", 40)


def test_slider_that_adds_may_start_at_nothing(tmp_path: Path) -> None:
    text = GOOD.replace('scale = "ratio"', 'scale = "difference"')
    height = load_bank(write(tmp_path, text.replace("low = 30", "low = 0"))).question(
        "height"
    )
    assert isinstance(height, SliderQuestion)
    assert (height.scale.low, height.scale.scale) == (0, "difference")


def test_order_question_shows_its_items_as_they_stand(tmp_path: Path) -> None:
    day = bank(tmp_path).question("day")
    assert isinstance(day, OrderQuestion)
    assert [item.id for item in day.items] == ["dusk", "dawn", "noon"]
    assert day.order == ("dawn", "noon", "dusk")


def test_sketch_question_holds_a_value_for_each_point(tmp_path: Path) -> None:
    curve = bank(tmp_path).question("curve")
    assert isinstance(curve, SketchQuestion)
    assert (curve.x_label, curve.y_label) == ("Side", "Area")
    assert (curve.at, curve.values) == ((1, 2, 4), (1, 4, 16.5))
    assert (curve.unit, curve.scale.low, curve.scale.high) == ("times", 0.5, 100)


def test_reflection_holds_its_hints_and_its_rubric(tmp_path: Path) -> None:
    words = bank(tmp_path).question("words")
    assert isinstance(words, Reflection)
    assert words.hints == ("It is alive.",)
    assert [(one.id, one.text) for one in words.rubric] == [
        ("gas", "Gas."),
        ("gluten", "Gluten."),
    ]


def test_reflection_needs_no_hint(tmp_path: Path) -> None:
    text = GOOD.replace('[[question.hint]]\ntext = "It is alive."\n', "")
    words = load_bank(write(tmp_path, text)).question("words")
    assert isinstance(words, Reflection)
    assert words.hints == ()


def test_exercise_holds_a_whole_number(tmp_path: Path) -> None:
    task = bank(tmp_path).question("task")
    assert isinstance(task, Exercise)
    assert task.answer == 7


def test_all_but_the_exercises_are_predicted(tmp_path: Path) -> None:
    loaded = bank(tmp_path)
    assert list(loaded.predicted) == [i for i in loaded.questions if i != "task"]


def test_unknown_question_lists_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UnknownQuestionError) as caught:
        bank(tmp_path).question("pock")
    assert str(caught.value) == (
        "lesson 'good' has no question 'pock'; its questions are "
        "pick, many, amount, height, day, curve, words, task"
    )


def test_placeholders_are_the_names_in_single_braces() -> None:
    assert placeholders("{a} and {b}, {{c}} {a}") == {"a", "b"}


# -- faulty banks --------------------------------------------------------------------

FAULTS = [
    # a key that is missing: (text, replaced by, where, key)
    ('title = "A lesson"', "", "", "title"),
    ('id = "pick"\n', "", "question 'number 1'", "id"),
    ('kind = "choice"', "", "question 'pick'", "kind"),
    ('prompt = "Which?"', "", "question 'pick'", "prompt"),
    ('explanation = "Because of {measured}."', "", "question 'pick'", "explanation"),
    ('answer = "a"', "", "question 'pick'", "answer"),
    ('id = "b"', "", "question 'pick', choice None", "id"),
    ('text = "That"', "", "question 'pick', choice 'b'", "text"),
    ('feedback = "Well judged."', "", "question 'pick', choice 'a'", "feedback"),
    ('unit = "bytes"', "", "question 'amount'", "unit"),
    ("answer = 1024", "", "question 'amount'", "answer"),
    ('too_low = "More."', "", "question 'amount'", "too_low"),
    ('too_high = "Less."', "", "question 'amount'", "too_high"),
    ("answer = 7", "", "question 'task'", "answer"),
    ('too_low = "Go higher than {attempt}."', "", "question 'task'", "too_low"),
    ('too_high = "Go lower than {attempt}."', "", "question 'task'", "too_high"),
    # a key that nobody reads
    ('title = "A lesson"', 'title = "A"\ntittle = "B"', "", "tittle"),
    ("confidence = true", "confidense = true", "question 'pick'", "confidense"),
    ("near_within = 3.0", "near_witin = 3.0", "question 'amount'", "near_witin"),
    ('text = "This"', 'text = "T"\nnote = ""', "question 'pick', choice 'a'", "note"),
    ("answer = 7", 'answer = 7\nunit = "count"', "question 'task'", "unit"),
    # a value of the wrong type
    ('title = "A lesson"', "title = 1", "", "title"),
    ('id = "amount"', "id = 5", "question 5", "id"),
    ('prompt = "How much?"', "prompt = ['How']", "question 'amount'", "prompt"),
    ("confidence = true", 'confidence = "yes"', "question 'pick'", "confidence"),
    ("answer = 1024", 'answer = "1 KiB"', "question 'amount'", "answer"),
    ("answer = 1024", "answer = true", "question 'amount'", "answer"),
    ("right_within = 1.2", 'right_within = "2"', "question 'amount'", "right_within"),
    ("answer = 7", 'answer = "7"', "question 'task'", "answer"),
    # a text without a word in it
    ('title = "A lesson"', 'title = ""', "", "title"),
    ('prompt = "Find it."', 'prompt = "  "', "question 'task'", "prompt"),
    ('feedback = "Well judged."', "feedback = ''", "question 'pick'", "feedback"),
    # a value that makes no sense
    ('id = "amount"', 'id = "pick"', "question 'pick'", "id"),
    ('id = "b"', 'id = "a"', "question 'pick'", "choice"),
    ('answer = "a"', 'answer = "c"', "question 'pick'", "answer"),
    ('kind = "choice"', 'kind = "essay"', "question 'pick'", "kind"),
    ('unit = "bytes"', 'unit = "MiB"', "question 'amount'", "unit"),
    ("answer = 1024", "answer = 0", "question 'amount'", "answer"),
    ("answer = 1024", "answer = -1.5", "question 'amount'", "answer"),
    ("right_within = 1.2", "right_within = 3.5", "question 'amount'", "right_within"),
    ("right_within = 1.2", "right_within = 0.9", "question 'amount'", "right_within"),
    ("answer = 7", "answer = 7.5", "question 'task'", "answer"),
    ("answer = 7", "answer = 0", "question 'task'", "answer"),
    # placeholders that no lesson could fill
    ("of {measured}", "of {0}", "question 'pick'", "explanation"),
    ("of {measured}", "of {}", "question 'pick'", "explanation"),
    ("of {measured}", "of {measured.real}", "question 'pick'", "explanation"),
    ("of {measured}", "of {measured:d}", "question 'pick'", "explanation"),
    ("of {measured}", "of {measured!r}", "question 'pick'", "explanation"),
    ("answer = 7", "answer = inf", "question 'task'", "answer"),
    ("answer = 7", "answer = nan", "question 'task'", "answer"),
    ("of {weights}", "of {", "question 'pick', choice 'b'", "feedback"),
    ("How much?", "How much}?", "question 'amount'", "prompt"),
    ("than {attempt}", "than {the attempt}", "question 'task'", "too_low"),
    # what all kinds share
    ('topic = "Picking one"', "", "question 'pick'", "topic"),
    ('topic = "A task"', "topic = ''", "question 'task'", "topic"),
    ('topic = "Bread"', "topic = 1", "question 'words'", "topic"),
    # misconceptions belong to wrong choices alone
    ('misconception = "that is this"', "", "choice 'b'", "misconception"),
    ('= "that is this"', '= " "', "choice 'b'", "misconception"),
    ('"Well judged."', '"Well."\nmisconception = "x"', "choice 'a'", "misconception"),
    (
        'misconception = "what is',
        'misc = "what is',
        "choice 'nowhere'",
        "misconception",
    ),
    # several choices
    ('answer = ["here", "there"]', "answer = []", "question 'many'", "answer"),
    ('answer = ["here", "there"]', "answer = [1, 2]", "question 'many'", "answer"),
    ('["here", "there"]', '["here", "here"]', "question 'many'", "answer"),
    ('["here", "there"]', '["here", "hear"]', "question 'many'", "answer"),
    ('["here", "there"]', '[["here"], "there"]', "question 'many'", "answer"),
    ('answer = ["here", "there"]', "answer = 1", "question 'many'", "answer"),
    ('answer = ["here", "there"]', "", "question 'many'", "answer"),
    # sliders
    ("low = 30\n", "", "question 'height'", "low"),
    ("high = 3000\n", "", "question 'height'", "high"),
    ("low = 30\n", "low = '30'\n", "question 'height'", "low"),
    ("low = 30\n", "low = nan\n", "question 'height'", "low"),
    ("low = 30\n", "low = 0\n", "question 'height'", "low"),
    ("low = 30\n", "low = -1\n", "question 'height'", "low"),
    ("low = 30\n", "low = 3000\n", "question 'height'", "low"),
    ("high = 3000", "high = 3", "question 'height'", "low"),
    (
        '30\nhigh = 3000\nscale = "ratio"',
        '-1\nhigh = 3000\nscale = "difference"',
        "question 'height'",
        "low",
    ),
    ('scale = "ratio"', 'scale = "log"', "question 'height'", "scale"),
    ('scale = "ratio"', "scale = 1", "question 'height'", "scale"),
    ("steps = 20", "steps = 1", "question 'height'", "steps"),
    ("steps = 20", "steps = 501", "question 'height'", "steps"),
    ("steps = 20", "steps = 20.5", "question 'height'", "steps"),
    ("steps = 20", "steps = '20'", "question 'height'", "steps"),
    ("steps = 20", "step = 20", "question 'height'", "step"),
    ("answer = 300", "answer = 29", "question 'height'", "answer"),
    ("answer = 300", "answer = 3001", "question 'height'", "answer"),
    ("answer = 300", "answer = 0", "question 'height'", "answer"),
    ('unit = "count"\n', "", "question 'height'", "unit"),
    ('too_low = "Higher."', "", "question 'height'", "too_low"),
    # orders
    ('answer = ["dawn", "noon", "dusk"]', "", "question 'day'", "answer"),
    ('["dawn", "noon", "dusk"]', '"dawn"', "question 'day'", "answer"),
    ('["dawn", "noon", "dusk"]', '["dawn", "noon"]', "question 'day'", "answer"),
    ('["dawn", "noon", "dusk"]', '["dawn", "noon", "x"]', "question 'day'", "answer"),
    ('["dawn", "noon", "dusk"]', '["dawn", "noon", 1]', "question 'day'", "answer"),
    ('"noon", "dusk"]', '"noon", "noon"]', "question 'day'", "answer"),
    ('["dawn", "noon", "dusk"]', '["dusk", "dawn", "noon"]', "question 'day'", "item"),
    ('id = "dusk"', 'id = "dawn"', "question 'day'", "item"),
    ('text = "Dusk"', "", "question 'day', item 'dusk'", "text"),
    ('"Dusk is last."', "''", "question 'day', item 'dusk'", "feedback"),
    ('"Dusk is last."', "'}'", "question 'day', item 'dusk'", "feedback"),
    ('text = "Dusk"', 'text = "D"\nnote = ""', "question 'day', item 'dusk'", "note"),
    # sketches
    ('x_label = "Side"', "", "question 'curve'", "x_label"),
    ('y_label = "Area"', "", "question 'curve'", "y_label"),
    ("at = [1, 2, 4]", "", "question 'curve'", "at"),
    ("at = [1, 2, 4]", "at = 1", "question 'curve'", "at"),
    ("at = [1, 2, 4]", "at = [1, 2, '4']", "question 'curve'", "at"),
    ("at = [1, 2, 4]", "at = [1, 2, true]", "question 'curve'", "at"),
    ("at = [1, 2, 4]", "at = [1, 2, inf]", "question 'curve'", "at"),
    ("at = [1, 2, 4]", f"at = [1, 2, 1{'0' * 400}]", "question 'curve'", "at"),
    ("at = [1, 2, 4]", "at = [1, 2, 2.0]", "question 'curve'", "at"),
    (
        "at = [1, 2, 4]\nanswer = [1, 4, 16.5]",
        "at = [1]\nanswer = [1]",
        "question 'curve'",
        "at",
    ),
    ("answer = [1, 4, 16.5]", "", "question 'curve'", "answer"),
    ("answer = [1, 4, 16.5]", "answer = [1, 4]", "question 'curve'", "answer"),
    ("answer = [1, 4, 16.5]", "answer = [1, 4, 101]", "question 'curve'", "answer"),
    ("answer = [1, 4, 16.5]", "answer = [1, 4, 0.4]", "question 'curve'", "answer"),
    ("answer = [1, 4, 16.5]", "answer = [1, 4, nan]", "question 'curve'", "answer"),
    ('unit = "times"', 'unit = "rooms"', "question 'curve'", "unit"),
    ("low = 0.5", "low = 0.0", "question 'curve'", "low"),
    ("low = 0.5\n", "low = 0.5\nright_within = 5\n", "'curve'", "right_within"),
    ("More at {at}", "More at {at:d}", "question 'curve'", "too_low"),
    # reflections
    ('text = "It is alive."', "", "question 'words', hint 1", "text"),
    ('text = "It is alive."', "text = ''", "question 'words', hint 1", "text"),
    ("[[question.hint]]", "[question.hint]", "question 'words'", "hint"),
    ('"It is alive."', '"It."\nid = "x"', "question 'words', hint 1", "id"),
    ('id = "gas"', 'id = "gluten"', "question 'words'", "criterion"),
    ('text = "Gas."', "", "question 'words', criterion 'gas'", "text"),
    ('text = "Gas."', 'text = "G"\nx = 1', "question 'words', criterion 'gas'", "x"),
    (
        '[[question.criterion]]\nid = "gas"\ntext = "Gas."\n',
        "",
        "question 'words'",
        "criterion",
    ),
    ('explanation = "Yeast."', "", "question 'words'", "explanation"),
    (
        'explanation = "Yeast."',
        'explanation = "Y"\nanswer = "x"',
        "question 'words'",
        "answer",
    ),
]


@pytest.mark.parametrize(("text", "instead", "where", "key"), FAULTS)
def test_fault_is_told_with_file_question_and_key(
    tmp_path: Path, text: str, instead: str, where: str, key: str
) -> None:
    assert text in GOOD
    message = message_of(write(tmp_path, GOOD.replace(text, instead, 1)))
    assert message.startswith("faulty.toml, ")
    assert where in message
    assert f", key {key!r}: " in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "instead", "shown"),
    [
        ('answer = "a"', 'answer = "c"', ["'c'", "['a', 'b']"]),
        ('kind = "choice"', 'kind = "essay"', ["'essay'", *KINDS]),
        ('unit = "bytes"', 'unit = "MiB"', ["'MiB'", "bytes, seconds, FLOPs"]),
        ("answer = 1024", "answer = -1.5", ["-1.5", "above 0"]),
        ("answer = 7", "answer = 7.5", ["7.5", "whole number from 1"]),
        ('text = "This"', 'text = "T"\nnote = ""', ["'note'", "feedback, id, text"]),
        ("answer = 1024", 'answer = "1 KiB"', ["'1 KiB'", "a number"]),
        ('id = "amount"', 'id = "pick"', ["twice"]),
        ('["here", "there"]', '["here", "hear"]', ["'hear'", "['here', 'there'"]),
        ("low = 30\n", "low = 3001\n", ["3001", "3000", "smaller"]),
        ("steps = 20", "steps = 501", ["501", "2 to 500"]),
        ("answer = 300", "answer = 29", ["29", "does not reach"]),
        ('"noon", "dusk"]', '"noon"]', ["['dawn', 'noon']", "dusk", "once"]),
        ('["dawn", "noon", "dusk"]', '["dusk", "dawn", "noon"]', ["list them in"]),
        ("answer = [1, 4, 16.5]", "answer = [1, 4]", ["2 values for 3 points"]),
        ("answer = [1, 4, 16.5]", "answer = [1, 4, 101]", ["101", "0.5 and 100"]),
        ('id = "gas"', 'id = "gluten"', ["['gluten', 'gluten']", "at least two"]),
    ],
)
def test_fault_shows_the_value_and_what_to_write(
    tmp_path: Path, text: str, instead: str, shown: list[str]
) -> None:
    message = message_of(write(tmp_path, GOOD.replace(text, instead, 1)))
    assert all(part in message for part in shown)


def test_one_choice_is_too_few(tmp_path: Path) -> None:
    start, end = (
        GOOD.index('[[question.choice]]\nid = "b"'),
        GOOD.index('\n[[question]]\nid = "amount"'),
    )
    message = message_of(write(tmp_path, GOOD[:start] + GOOD[end:]))
    assert "faulty.toml, question 'pick', key 'choice'" in message
    assert "at least two" in message


def test_parts_without_ids_are_told_by_their_list(tmp_path: Path) -> None:
    text = GOOD.replace('id = "a"\n', "").replace('id = "b"\n', "")
    assert "key 'choice': has the ids [None, None]" in message_of(write(tmp_path, text))


def test_second_hint_is_told_by_its_number(tmp_path: Path) -> None:
    hint = "[[question.hint]]\n"
    text = GOOD.replace(hint, f'{hint}text = "First."\n{hint}').replace(
        'text = "It is alive."', ""
    )
    assert "question 'words', hint 2, key 'text'" in message_of(write(tmp_path, text))


def test_bank_without_questions_key_is_refused(tmp_path: Path) -> None:
    message = message_of(write(tmp_path, 'title = "A lesson"'))
    assert message.startswith("faulty.toml, key 'question': is missing")


def test_questions_that_are_no_list_of_tables_are_refused(tmp_path: Path) -> None:
    for wrong in ('question = "x"', "question = [1, 2]", '[question]\nid = "x"'):
        message = message_of(write(tmp_path, f'title = "A lesson"\n{wrong}\n'))
        assert message.startswith("faulty.toml, key 'question': ")
        assert "[[question]]" in message


@pytest.mark.parametrize(
    "content",
    [
        *[b"title = ", b"<html>", b"title = 'a'\ntitle = 'b'", b"title = '\xff\xfe'"],
        b"title = " + b"[" * 10**5,
        b"title = 1" + b"0" * 5000,
    ],
    ids=["torn", "html", "key twice", "not UTF-8", "too deep", "too long a number"],
)
def test_what_is_not_toml_is_told_with_its_file(tmp_path: Path, content: bytes) -> None:
    message = message_of(write(tmp_path, content))
    assert message.startswith("faulty.toml is not TOML: ")
    assert "\n" not in message


# -- where banks are found -----------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    for name in ("00_first", "01_second"):
        write(folder / "lessons" / "questions", GOOD, f"{name}.toml")
    (folder / "docs" / "deep").mkdir(parents=True)
    return folder


@pytest.mark.parametrize("start", ["lessons", ".", "docs/deep", "lessons/questions"])
def test_bank_is_found_from_anywhere_in_the_repository(
    repository: Path, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    monkeypatch.chdir(repository / start)
    assert find_bank("01_second").path == (
        repository.resolve() / "lessons" / "questions" / "01_second.toml"
    )


def test_bank_beside_the_notebook_comes_first(repository: Path) -> None:
    own = write(repository / "docs" / "questions", GOOD, "01_second.toml")
    assert find_bank("01_second", repository / "docs").path == own.resolve()


def test_paths_of_all_banks_are_known_by_lesson(repository: Path) -> None:
    folder = repository.resolve() / "lessons" / "questions"
    assert bank_paths(repository / "docs" / "deep") == {
        name: folder / f"{name}.toml" for name in ("00_first", "01_second")
    }


def test_misspelt_lesson_lists_the_lessons(repository: Path) -> None:
    with pytest.raises(UnknownQuestionError) as caught:
        find_bank("01_secnd", repository / "lessons")
    assert "no lesson '01_secnd'" in str(caught.value)
    assert "the lessons here are 00_first, 01_second" in str(caught.value)


def test_lesson_far_from_the_repository_is_told_where_to_open_it(
    repository: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(UnknownQuestionError, match="open it inside lessons/"):
        find_bank("01_second", tmp_path / "elsewhere")


def test_fault_in_a_found_bank_is_told(repository: Path) -> None:
    write(repository / "lessons" / "questions", "title = 1", "00_first.toml")
    with pytest.raises(QuestionError, match=r"00_first\.toml, key 'title'"):
        find_bank("00_first", repository)


# -- the banks of the course ---------------------------------------------------------


def test_there_are_banks() -> None:
    assert len(BANKS) >= 2


@every_bank
def test_every_bank_of_the_course_loads(path: Path) -> None:
    assert find_bank(path.stem, path.parents[1]).questions


@every_bank
def test_every_key_of_the_course_is_an_answer_to_its_question(path: Path) -> None:
    for question in load_bank(path).predicted.values():
        if question.is_measured:
            assert question.fits(question.key)
            assert question.agree(question.key) == question.key
            assert question.compare(question.key, question.key).outcome == "right"


def test_no_two_answers_of_the_course_share_their_feedback() -> None:
    texts = []
    for question in (q for path in BANKS for q in load_bank(path).questions.values()):
        texts += remarks(question)
    told = [" ".join(text.lower().split()) for text in texts if text]
    assert len(set(told)) == len(told) > 0


def test_no_two_topics_of_a_bank_are_alike() -> None:
    for path in BANKS:
        topics = [question.topic for question in load_bank(path).questions.values()]
        assert len(set(topics)) == len(topics)

"""Every error that ckptlab raises on purpose, one class per remedy.

    CkptlabError
    ├── UnitError               a quantity that cannot be read       -> write it anew
    ├── ModelError              not a model that can be measured     -> pass a module
    ├── RankError               not a rank that can be played        -> leave the group
    ├── RecomputationError      a second run that would differ       -> repeatable runs
    ├── QuestionError           a question bank with a fault         -> mend the bank
    ├── UnknownQuestionError    no such question or lesson           -> correct the name
    ├── AnswerError             an answer that cannot be graded      -> answer anew
    ├── AnswerKeyError          the measurement contradicts the key  -> mend one of them
    ├── ChainError              a chain with impossible quantities   -> measure anew
    ├── ShapeError              sizes that no transformer has        -> correct them
    ├── PlanError               a plan that cannot be read or run    -> correct it
    └── BudgetTooSmall          no plan fits                         -> raise the budget

Errors of PyTorch and Python pass through as they are. The message of each
error says what was wrong, the value, the limit, and what to do.
"""


class CkptlabError(Exception):
    """Base of every error that ckptlab raises on purpose."""


class UnitError(CkptlabError, ValueError):
    """A text or number that is not a quantity of the wanted unit."""


class ModelError(CkptlabError, TypeError):
    """Something that is not a model which can be measured."""


class RankError(CkptlabError, ValueError):
    """A number of ranks, or a moment, at which none of them can be played."""


class RecomputationError(CkptlabError, RuntimeError):
    """A checkpointed function whose second run is not, or cannot be, like its first."""


class QuestionError(CkptlabError, ValueError):
    """A fault in a question bank; the message names file, question and key."""


class UnknownQuestionError(CkptlabError, LookupError):
    """A lesson or question that no bank holds; the message lists those there are."""


class AnswerError(CkptlabError, ValueError):
    """An answer that cannot be read or graded."""


class AnswerKeyError(CkptlabError, ValueError):
    """A measured value that contradicts the answer key of the question bank."""


class ChainError(CkptlabError, ValueError):
    """A stage or chain with quantities that cannot be."""


class ShapeError(CkptlabError, ValueError):
    """Sizes of a transformer, or a technique, that cannot be."""


class PlanError(CkptlabError, ValueError):
    """A plan that cannot be read, or that does not fit its chain."""


class BudgetTooSmall(CkptlabError, ValueError):  # noqa: N818 - the public name
    """A budget that no plan meets.

    Attributes:
        smallest_bytes: the smallest budget that works.
    """

    def __init__(self, message: str, smallest_bytes: int) -> None:
        super().__init__(message)
        self.smallest_bytes = smallest_bytes

"""The runs of stages that planning solves: which there are, and which are equal.

A run is a stretch of the chain. Every short run counts; of a run longer than
`width` stages the ends lie on a grid, multiples of 2, 4, 8… stages, so that it has at
most `width` blocks. Runs of equal stages in equal order are solved once.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ckptlab.planning.chain import Chain

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Blocks(NamedTuple):
    """What blocks of stages cost: one array a quantity, one element a block.

    Attributes:
        output_bytes: of the block's last stage.
        keep_bytes, forward_peak_bytes, backward_peak_bytes, seconds: when all its
            stages are bare; a gradient that is live comes on top of
            forward_peak_bytes.
        last_seconds: as seconds, in a recomputation that ends with the block.
        first_peak_bytes, next_peak_bytes, run_seconds: of a run that keeps nothing,
            when it begins with this block, and when the block before belongs to it.
    """

    output_bytes: Floats
    keep_bytes: Floats
    forward_peak_bytes: Floats
    backward_peak_bytes: Floats
    seconds: Floats
    last_seconds: Floats
    first_peak_bytes: Floats
    next_peak_bytes: Floats
    run_seconds: Floats

    @classmethod
    def from_chain(cls, chain: Chain) -> "Blocks":
        """A block for each stage."""

        def column(name: str) -> Floats:
            return np.array([getattr(stage, name) for stage in chain.stages], float)

        outputs, saved = column("output_bytes"), column("saved_bytes")
        inputs = np.append(float(chain.input_bytes), outputs[:-1])
        forward_extra = column("forward_extra_bytes")
        forward_seconds = column("forward_seconds")
        seconds = forward_seconds + column("backward_seconds")
        return cls(
            outputs,
            saved,
            saved + forward_extra,
            saved + outputs + inputs + column("backward_extra_bytes"),
            seconds,
            seconds - column("skipped_seconds"),
            outputs + forward_extra,
            inputs + outputs + forward_extra,
            forward_seconds,
        )

    def runs_from(self, starts: Integers, n_blocks: int) -> tuple[Floats, Floats]:
        """Peak bytes and seconds of runs of 1, 2… blocks: (starts, n_blocks)."""
        ends = starts[:, None] + np.arange(n_blocks)
        peaks = self.next_peak_bytes[ends]
        peaks[:, :1] = self.first_peak_bytes[starts, None][:, :n_blocks]
        seconds = self.run_seconds[ends].cumsum(axis=1)
        return np.maximum.accumulate(peaks, axis=1), seconds

    def joined(self, starts: Integers) -> "Blocks":
        """Larger blocks, which begin at `starts`; the last goes on to the end."""
        ends = np.append(starts[1:], len(self.keep_bytes))
        kept_before = np.cumsum(self.keep_bytes) - self.keep_bytes
        at_start = kept_before[starts]
        seconds = np.add.reduceat(self.seconds, starts)
        # the block's first stage has no input of the run's own
        later = self.next_peak_bytes.copy()
        later[starts] = self.first_peak_bytes[starts]
        return Blocks(
            self.output_bytes[ends - 1],
            np.add.reduceat(self.keep_bytes, starts),
            np.maximum.reduceat(kept_before + self.forward_peak_bytes, starts)
            - at_start,
            np.maximum.reduceat(kept_before + self.backward_peak_bytes, starts)
            - at_start,
            seconds,
            seconds + (self.last_seconds - self.seconds)[ends - 1],
            np.maximum.reduceat(later, starts),
            np.maximum.reduceat(self.next_peak_bytes, starts),
            np.add.reduceat(self.run_seconds, starts),
        )


class Run(NamedTuple):
    """Some blocks of a level in a row."""

    level: int
    start: int
    n_blocks: int


class Runs(NamedTuple):
    """Runs of equally many blocks of one level, to be solved together."""

    level: int
    n_blocks: int
    starts: Integers


class Layout:
    """Every run, and the row of the table that it is solved in.

    Attributes:
        levels: blocks of 1, 2, 4… stages; the last may be shorter.
        rows: of each level an array (start, n_blocks) of rows; 0 is the run of nothing.
        groups: what is to be solved, in an order in which it can be.
        n_rows, n_joins: how large the table gets, and how much work it is.
    """

    def __init__(self, chain: Chain, width: int) -> None:
        self.width = width
        self.levels = [Blocks.from_chain(chain)]
        self.rows: list[Integers] = []
        self.groups: list[Runs] = []
        self.n_rows = 1
        self._classes = _Classes(self.levels[0])
        self._lay_out(0)
        while self.n_blocks(-1) > width:
            starts = np.arange(0, len(chain), 2 ** len(self.levels))
            self.levels.append(self.levels[0].joined(starts))
            self._lay_out(len(self.levels) - 1)
        self.n_joins = sum(runs.n_blocks * len(runs.starts) for runs in self.groups)

    def n_blocks(self, level: int) -> int:
        """How many blocks the chain has at a level."""
        return len(self.levels[level].keep_bytes)

    def stages(self, level: int, block: int) -> range:
        """The numbers of a block's stages, as a plan counts them."""
        end = min((block + 1) << level, self.n_blocks(0))
        return range((block << level) + 1, end + 1)

    def row(self, run: Run) -> int:
        """Where a run is solved."""
        return int(self.rows[run.level][run.start, run.n_blocks])

    def finest(self, run: Run) -> Run:
        """The same run in blocks of the level where it is solved."""
        level, start, n_blocks = run
        while level > 0 and 2 * n_blocks <= self.width:
            n_blocks = int(self._n_halves(level, np.array(start), n_blocks))
            level, start = level - 1, 2 * start
        return Run(level, start, n_blocks)

    def _n_halves(self, level: int, starts: Integers, n_blocks: int) -> Integers:
        """How many blocks runs have a level below, where they begin at 2 * starts."""
        ends = np.minimum(2 * (starts + n_blocks), self.n_blocks(level - 1))
        return ends - 2 * starts

    def _lay_out(self, level: int) -> None:
        n_starts = self.n_blocks(level)
        most_blocks = min(self.width, n_starts)
        rows = np.zeros((n_starts + 1, most_blocks + 1), int)
        self.rows.append(rows)
        for n_blocks in range(1, most_blocks + 1):
            starts = np.arange(n_starts - n_blocks + 1)
            if level and 2 * n_blocks <= self.width:  # solved a level below
                n_halves = self._n_halves(level, starts, n_blocks)
                rows[starts, n_blocks] = self.rows[level - 1][2 * starts, n_halves]
                continue
            firsts, classes = self._classes.of(
                starts << level, (starts + n_blocks) << level
            )
            self.groups.append(Runs(level, n_blocks, firsts))
            rows[starts, n_blocks] = self.n_rows + classes
            self.n_rows += len(firsts)


class _Classes:
    """Tells which runs are equal, by ranks of the runs of 1, 2, 4, 8… stages."""

    def __init__(self, stages: Blocks) -> None:
        kinds = np.unique(np.stack(stages), axis=1, return_inverse=True)[1]
        self._ranks = [kinds.reshape(-1)]

    def of(self, starts: Integers, ends: Integers) -> tuple[Integers, Integers]:
        """Which of the runs are the first of their class, and the class of each.

        Unchecked: the longest is at most twice the power of two that the shortest
        holds; so two runs of that length, laid over it, cover each.
        """
        n_stages = len(self._ranks[0])
        ends = np.minimum(ends, n_stages)
        power = int((ends - starts).min()).bit_length() - 1
        while len(self._ranks) <= power:
            half = self._ranks[-1]
            shift = 2 ** (len(self._ranks) - 1)
            both = half[:-shift] * n_stages + half[shift:]
            self._ranks.append(np.unique(both, return_inverse=True)[1])
        ranks = self._ranks[power]
        both = ranks[starts] * n_stages + ranks[ends - 2**power]
        shorter = (ends - starts) < (ends - starts).max()
        return np.unique(2 * both + shorter, return_index=True, return_inverse=True)[1:]

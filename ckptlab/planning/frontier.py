"""Every trade-off of memory and time that a chain allows: one solve for all budgets.

Dynamic programming over the notation of `planning.plan`, in the accounting of
`planning.replay`. Griewank and Walther's Revolve (2000) solved uniform chains in
closed form; Beaumont, Eyraud-Dubois, Herrmann, Joly and Shilova (2019, "Optimal
checkpointing for heterogeneous chains") gave the recurrence for stages of different
bytes and times. Ours follows theirs, by number (the code refers back to these):

1. Write a_i for the output bytes of stage i, s_i for its saved bytes (a_i included),
   e and e' for the transient bytes of its two passes. R(i, j; q) are the least
   seconds of running stages i..j again and then backward within q bytes, while the
   gradient a_j is live; the input of stage i is counted outside. Either stage i is
   bare, and R is its seconds and R(i+1, j; q - s_i), where

       q >= max(s_i + e_i + a_j,  s_i + a_i + a_{i-1} + e'_i)

   or a parenthesis i..k with k < j comes first, and R is the seconds of a run of
   i..k that keeps nothing, and R(i, k; q), and R(k+1, j; q - a_k), where

       q >= peak of that run + a_j

   In R(i, i; q) the seconds are without those that stage i skips.
2. F(i; q), the first forward pass from stage i to the end and the whole backward
   pass, is the same without the gradient, and its last parenthesis does run.
3. R and F fall in steps. They are sampled at budgets between the least that works and
   what storing all takes, at every multiple of the chain's unit of bytes if those are
   few, else evenly in the fourth root. A sample holds the exact bytes and seconds of
   a real plan, so a plan never passes its budget and rounding does not add up along
   the chain; what it can miss is a faster plan that needs up to one spacing more.
4. Of runs longer than `width` stages only those count that have at most `width`
   blocks (see `planning.runs`); a block that is bare is bare as one.

Short chains of few units are solved exactly. Of the others, up to 80 stages have every
run, and of longer ones those that repeat: their smallest budget is exact, and on random
unlike stages no budget lost 0.5 % of the seconds that were possible with 0.5 % less
memory. Longer chains lose a little more by rule 4: 120 unlike stages 0.9 % in the
smallest budget, 0.3 % of the seconds with 1 % less memory.

Left out on purpose: plans that keep a stage's output but not its other saved bytes
inside a run (beyond the notation), offloading, and parallel branches.
"""

from collections.abc import Iterator
from functools import reduce
from math import gcd
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from ckptlab.planning.chain import Chain
from ckptlab.planning.plan import Item, Plan
from ckptlab.planning.runs import Floats, Integers, Layout, Run, Runs

WIDTHS = (128, 64, 32)
"""Blocks in the longest run of a level; the first that is quick enough is taken."""

MOST_JOINS = 100_000
"""Pairs of runs to be joined above which a smaller width is tried."""

MOST_TAILS = 512
"""Stages at which the first forward pass may pass over to another item."""

MOST_WORK, MOST_SAMPLES = 40_000_000, 6_000_000
"""Bounds of the samples of a run: joined in all, and kept in all."""

FEWEST_POINTS, MOST_POINTS, MOST_EXACT_POINTS = 200, 1000, 4096

CHUNK = 100_000
"""Samples that are joined at once; so many fit a processor's cache."""


class _Ways(NamedTuple):
    """How each of some runs can begin: arrays (runs, ways); way 0 is a bare block.

    The others are parentheses. `inner` and `rest` are rows of the table; what follows
    the beginning has `offset_bytes` below it.
    """

    inner: Integers
    rest: Integers
    least_bytes: Floats
    offset_bytes: Floats
    seconds: Floats


class Frontier:
    """The trade-offs of a chain.

    Args:
        chain: stages of different bytes and seconds, transient bytes included.

    Attributes:
        smallest_bytes: the smallest budget that works.
        peak_bytes, total_seconds: of each trade-off, least memory first.
    """

    def __init__(self, chain: Chain) -> None:
        self._input_bytes = chain.input_bytes
        for width in WIDTHS:
            self._layout = layout = Layout(chain, width)
            if layout.n_joins <= MOST_JOINS:
                break
        self._tail_level = 0
        while layout.n_blocks(self._tail_level) > MOST_TAILS:
            self._tail_level += 1
        n_tails = layout.n_blocks(self._tail_level)
        # the tail of nothing is row 0, the run of nothing
        self._tail_rows = np.append(np.arange(n_tails)[::-1] + layout.n_rows, 0)
        self._table = _Table(chain, layout.n_rows + n_tails, layout.n_joins)
        with tqdm(
            total=len(layout.groups) + n_tails, desc="planning", delay=1, leave=False
        ) as bar:
            for runs in layout.groups:
                self._solve(runs)
                bar.update()
            for start in reversed(range(n_tails)):
                self._table.append(self._ways_of_tail(start))
                bar.update()
        table_bytes, self.total_seconds = self._table.trade_offs(-1)
        self.peak_bytes = self._input_bytes + table_bytes
        self.smallest_bytes = int(self.peak_bytes[0])

    def plan(self, budget_bytes: int) -> Plan:
        """The fastest plan within the budget, from `smallest_bytes` up."""
        limit = float(budget_bytes - self._input_bytes)
        blocks = self._layout.levels[self._tail_level]
        items: list[Item] = []
        start = 0
        while start < len(blocks.seconds):
            way = self._table.best_way(self._ways_of_tail(start), limit)
            if way == 0:
                items.extend(self._layout.stages(self._tail_level, start))
                limit -= blocks.keep_bytes[start]
                start += 1
            else:
                runs = [
                    Run(level, first, int(size))
                    for level, first, sizes in self._tail_runs(start)
                    for size in sizes
                ]
                run = runs[way - 1]
                items.append(self._write(run, limit))
                end = np.array(run.start + run.n_blocks)
                start = int(self._tail_after(run.level, end))
                limit -= blocks.output_bytes[start - 1]
        return Plan(tuple(items))

    def _write(self, run: Run, limit: float) -> Plan:
        """The fastest plan of a run within a limit; equal runs are planned alike."""
        ways: dict[tuple[int, float], int] = {}
        open_items: list[list[Item]] = [[]]
        # runs to be written, the next one on top; None closes a parenthesis.
        # No recursion, for parentheses nest as deep as there are stages
        todo: list[tuple[Run, float] | None] = [(run, limit)]
        while todo:
            task = todo.pop()
            if task is None:
                inside = open_items.pop()
                open_items[-1].append(Plan(tuple(inside)))
                continue
            run, limit = self._layout.finest(task[0]), task[1]
            key = self._layout.row(run), limit
            if key not in ways:
                alone = Runs(run.level, run.n_blocks, np.array([run.start]))
                ways[key] = self._table.best_way(self._ways(alone), limit)
            n_begun = max(1, ways[key])  # blocks of the bare block or parenthesis
            blocks = self._layout.levels[run.level]
            if ways[key] == 0:
                open_items[-1].extend(self._layout.stages(run.level, run.start))
                gone_bytes = blocks.keep_bytes[run.start]
            else:
                gone_bytes = blocks.output_bytes[run.start + n_begun - 1]
            if n_begun < run.n_blocks:
                rest = Run(run.level, run.start + n_begun, run.n_blocks - n_begun)
                todo.append((rest, limit - gone_bytes))
            if ways[key] > 0:
                open_items.append([])
                todo += [None, (run._replace(n_blocks=n_begun), limit)]
        return Plan(tuple(open_items[0]))

    def _solve(self, runs: Runs) -> None:
        n_at_once = max(1, CHUNK // (runs.n_blocks * self._table.n_points))
        for at in range(0, len(runs.starts), n_at_once):
            part = runs._replace(starts=runs.starts[at : at + n_at_once])
            self._table.append(self._ways(part))

    def _ways(self, runs: Runs) -> _Ways:
        """Rule 1, for runs of equally many blocks."""
        blocks, rows = self._layout.levels[runs.level], self._layout.rows[runs.level]
        starts = runs.starts[:, None]
        sizes = np.arange(1, runs.n_blocks)  # of the parenthesis
        ends = starts + sizes - 1
        gradient = blocks.output_bytes[starts + runs.n_blocks - 1]
        peak_bytes, seconds = blocks.runs_from(runs.starts, runs.n_blocks - 1)
        bare = np.maximum(
            blocks.forward_peak_bytes[starts] + gradient,
            blocks.backward_peak_bytes[starts],
        )
        no_run = np.zeros_like(starts)
        rest_of_bare = rows[starts + 1, runs.n_blocks - 1]
        bare_seconds = blocks.last_seconds if runs.n_blocks == 1 else blocks.seconds
        return _Ways(
            np.hstack([no_run, rows[starts, sizes]]),
            np.hstack([rest_of_bare, rows[starts + sizes, runs.n_blocks - sizes]]),
            np.hstack([bare, peak_bytes + gradient]),
            np.hstack([blocks.keep_bytes[starts], blocks.output_bytes[ends]]),
            np.hstack([bare_seconds[starts], seconds]),
        )

    def _ways_of_tail(self, start: int) -> _Ways:
        """Rule 2, for the tail that begins with a block of the tails' level."""
        blocks = self._layout.levels[self._tail_level]
        bare = max(blocks.forward_peak_bytes[start], blocks.backward_peak_bytes[start])
        rest_of_bare = self._tail_rows[start + 1]
        kept_bytes, seconds = blocks.keep_bytes[start], blocks.seconds[start]
        ways = [(0, rest_of_bare, bare, kept_bytes, seconds)]
        parts = [tuple(np.array([value]) for value in ways[0])]
        for level, first, sizes in self._tail_runs(start):
            blocks = self._layout.levels[level]
            peak_bytes, seconds = blocks.runs_from(np.array([first]), sizes[-1])
            parts.append(
                (
                    self._layout.rows[level][first, sizes],
                    self._tail_rows[self._tail_after(level, first + sizes)],
                    peak_bytes[0, sizes - 1],
                    blocks.output_bytes[first + sizes - 1],
                    seconds[0, sizes - 1],
                )
            )
        return _Ways(
            *(np.concatenate(part)[None, :] for part in zip(*parts, strict=True))
        )

    def _tail_runs(self, start: int) -> Iterator[tuple[int, int, Integers]]:
        """Level, first block and sizes of the parentheses that can begin a tail."""
        for level in range(self._tail_level, len(self._layout.levels)):
            first, odd = divmod(start << self._tail_level, 2**level)
            if odd:
                return
            most = min(self._layout.width, self._layout.n_blocks(level) - first)
            # smaller ones are among those of the level below
            fewest = 1 if level == self._tail_level else self._layout.width // 2 + 1
            if fewest <= most:
                yield level, first, np.arange(fewest, most + 1)

    def _tail_after(self, level: int, ends: Integers) -> Integers:
        """The tails that follow what ends before some blocks."""
        n_tails = self._layout.n_blocks(self._tail_level)
        starts: Integers = np.minimum(ends << (level - self._tail_level), n_tails)
        return starts


class _Table:
    """R and F of rules 1 and 2, as rule 3 samples them: a row a run, in columns.

    Column 0 stands for budgets that are too small; the last column is never reached.
    """

    def __init__(self, chain: Chain, n_rows: int, n_joins: int) -> None:
        self._unit, span = _unit_and_span(chain)
        affordable = min(MOST_WORK // n_joins, MOST_SAMPLES // n_rows)
        self._is_exact = span < self._unit * min(affordable, MOST_EXACT_POINTS)
        self.n_points = (
            int(span // self._unit) + 1
            if self._is_exact
            else min(max(affordable, FEWEST_POINTS), MOST_POINTS)
        )
        shape = (n_rows, self.n_points + 2)
        self._seconds = np.full(shape, np.inf)
        self._bytes = np.full(shape, np.inf)
        self._bytes[:, 0] = -np.inf
        self._least = np.zeros(n_rows)
        self._most = np.zeros(n_rows)
        self._density = np.ones(n_rows)
        self._seconds[0, 1:] = self._bytes[0, 1:-1] = 0  # the run of nothing
        self._n_rows = 1

    def append(self, ways: _Ways) -> None:
        """Solve some runs: one more row for each."""
        rows = slice(self._n_rows, self._n_rows + len(ways.rest))
        self._n_rows = rows.stop
        inner, rest = self._least[ways.inner], self._least[ways.rest]
        peaks = np.maximum(inner, ways.offset_bytes + rest)
        self._least[rows] = np.maximum(ways.least_bytes, peaks).min(axis=1)
        stored_bytes = ways.offset_bytes[:, 0] + self._most[ways.rest[:, 0]]
        self._most[rows] = np.maximum(ways.least_bytes[:, 0], stored_bytes)
        budgets = self._space(rows)
        at_once = max(1, CHUNK // ways.rest.size)
        parts = [
            budgets[:, at : at + at_once] for at in range(0, self.n_points, at_once)
        ]
        way = [self.seconds_within(ways, part).argmin(axis=1) for part in parts]
        self._fill(rows, *self._cost(ways, np.hstack(way), budgets))

    def seconds_within(self, ways: _Ways, budgets: Floats) -> Floats:
        """Least seconds of each way under each budget: (runs, ways, budgets)."""
        limits = budgets[:, None, :]
        offset, least = ways.offset_bytes[:, :, None], ways.least_bytes[:, :, None]
        total = self._seconds_at(self._find(ways.inner[:, :, None], limits))
        total += self._seconds_at(self._find(ways.rest[:, :, None], limits - offset))
        total += ways.seconds[:, :, None]
        np.putmask(total, limits < least, np.inf)
        return total

    def best_way(self, ways: _Ways, limit: float) -> int:
        """Which way is fastest for one run within one limit."""
        return int(self.seconds_within(ways, np.array([[limit]]))[0, :, 0].argmin())

    def _seconds_at(self, places: Integers) -> Floats:
        return self._seconds.reshape(-1).take(places, mode="clip")

    def _bytes_at(self, places: Integers) -> Floats:
        return self._bytes.reshape(-1).take(places, mode="clip")

    def trade_offs(self, row: int) -> tuple[Floats, Floats]:
        """Bytes and seconds of a row's samples, those alike but once."""
        n_bytes, seconds = self._bytes[row, 1:-1], self._seconds[row, 1:-1]
        is_new = np.append(True, seconds[1:] < seconds[:-1])
        return n_bytes[is_new], seconds[is_new]

    def _space(self, rows: slice) -> Floats:
        """The budgets at which the rows are sampled: (rows, n_points)."""
        numbers = np.arange(self.n_points)
        least, most = self._least[rows, None], self._most[rows, None]
        if self._is_exact:
            self._density[rows] = 1 / self._unit
            return least + self._unit * numbers
        bottom = self._warp(least)
        spacing = (self._warp(most) - bottom) / (self.n_points - 1)
        spacing = np.maximum(spacing, self._warp(most + 1) - self._warp(most))
        self._density[rows] = 1 / spacing[:, 0]
        budgets: Floats = np.floor((bottom + spacing * numbers) ** 4)
        budgets[:, :1], budgets[:, -1:] = least, most  # not a byte off
        return budgets

    def _warp(self, n_bytes: Floats) -> Floats:
        """What grows evenly from sample to sample; below zero only where bytes are."""
        return n_bytes if self._is_exact else np.sqrt(np.sqrt(np.maximum(n_bytes, 0)))

    def _find(self, rows: Integers, limits: Floats) -> Integers:
        """Where the fastest sample of a row within a limit is, in the flat table."""
        # a quarter of a byte more, lest rounding errors take a limit below its place
        steps = self._warp(limits + 0.25) - self._warp(self._least)[rows]
        steps *= self._density[rows]
        steps += 1  # column 0 where the limit is below the least
        np.clip(steps, 0, self.n_points, out=steps)
        places = steps.astype(int)
        places += rows * (self.n_points + 2)
        # the next sample may be just within the limit: its exact bytes tell
        places += self._bytes_at(places + 1) <= limits
        return places

    def _cost(
        self, ways: _Ways, way: Integers, budgets: Floats
    ) -> tuple[Floats, Floats]:
        """Exact bytes and seconds of the way that each budget takes."""
        inner, rest = (np.take_along_axis(rows, way, 1) for rows in ways[:2])
        least, offset, seconds = (np.take_along_axis(a, way, 1) for a in ways[2:])
        at_inner = self._find(inner, budgets)
        at_rest = self._find(rest, budgets - offset)
        peaks = np.maximum(self._bytes_at(at_inner), offset + self._bytes_at(at_rest))
        seconds = seconds + self._seconds_at(at_inner) + self._seconds_at(at_rest)
        return np.maximum(least, peaks), seconds

    def _fill(self, rows: slice, peaks: Floats, seconds: Floats) -> None:
        """A sample that is no faster than the one before it repeats that one."""
        falls = np.ones(seconds.shape, bool)
        falls[:, 1:] = seconds[:, 1:] < np.minimum.accumulate(seconds, axis=1)[:, :-1]
        source = np.maximum.accumulate(
            np.where(falls, np.arange(self.n_points), 0), axis=1
        )
        self._bytes[rows, 1:-1] = np.take_along_axis(peaks, source, axis=1)
        self._seconds[rows, 1:-1] = np.take_along_axis(seconds, source, axis=1)


def _unit_and_span(chain: Chain) -> tuple[int, int]:
    """What all bytes of a chain are multiples of, and what is never live at once."""
    amounts = [chain.input_bytes]
    for stage in chain.stages:
        amounts += [stage.output_bytes, stage.saved_bytes]
        amounts += [stage.forward_extra_bytes, stage.backward_extra_bytes]
    saved = sum(stage.saved_bytes for stage in chain.stages)
    return reduce(gcd, amounts) or 1, saved + 4 * max(amounts)

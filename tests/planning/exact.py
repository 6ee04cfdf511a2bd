"""The true trade-offs of a chain: the same notation, solved slowly with exact bytes.

An independent check of `planning.frontier`: frontiers of (peak bytes, seconds) as
plain sorted lists, every run, no sampling. Seconds for 60 unlike stages.
"""

import numpy as np
from numpy.typing import NDArray

from ckptlab.planning.chain import Chain

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]  # bytes rise, seconds fall
NOTHING: Curve = (np.zeros(1), np.zeros(1))


def true_trade_offs(chain: Chain) -> Curve:
    """Peak bytes and seconds of every plan that no other beats in both."""
    n_stages = len(chain)
    reruns: dict[tuple[int, int], Curve] = {}
    tail = {n_stages + 1: NOTHING}
    for first in range(n_stages, 0, -1):
        for last in range(first, n_stages + 1):
            rest = reruns.get((first + 1, last), NOTHING)
            gradient = chain.activation_bytes(last)
            curves = [bare_first(chain, first, rest, gradient)]
            if first == last:
                peak, seconds = curves[0]
                curves = [(peak, seconds - chain.stages[last - 1].skipped_seconds)]
            for end, peak, seconds in runs(chain, first, last - 1):
                pair = reruns[first, end], reruns[end + 1, last]
                offset = chain.activation_bytes(end)
                curves.append(joined(*pair, offset, peak + gradient, seconds))
            reruns[first, last] = best(curves)
        curves = [bare_first(chain, first, tail[first + 1], 0)]
        for end, peak, seconds in runs(chain, first, n_stages):
            pair = reruns[first, end], tail[end + 1]
            curves.append(joined(*pair, chain.activation_bytes(end), peak, seconds))
        tail[first] = best(curves)
    peaks, seconds = tail[1]
    return peaks + chain.input_bytes, seconds


def bare_first(chain: Chain, number: int, rest: Curve, gradient: int) -> Curve:
    stage = chain.stages[number - 1]
    made = stage.output_bytes + chain.activation_bytes(number - 1)
    least = stage.saved_bytes + max(
        stage.forward_extra_bytes + gradient, stage.backward_extra_bytes + made
    )
    seconds = stage.forward_seconds + stage.backward_seconds
    return np.maximum(least, stage.saved_bytes + rest[0]), seconds + rest[1]


def runs(chain: Chain, first: int, last: int) -> list[tuple[int, int, float]]:
    """End, peak bytes and seconds of the runs from `first` that keep nothing."""
    found, peak, seconds = [], 0, 0.0
    for number in range(first, last + 1):
        stage = chain.stages[number - 1]
        input_bytes = chain.activation_bytes(number - 1) if number > first else 0
        running = input_bytes + stage.output_bytes + stage.forward_extra_bytes
        peak, seconds = max(peak, running), seconds + stage.forward_seconds
        found.append((number, peak, seconds))
    return found


def joined(inner: Curve, rest: Curve, offset: int, least: int, seconds: float) -> Curve:
    rest_bytes = offset + rest[0]
    peaks = np.sort(np.concatenate([inner[0], rest_bytes]))
    peaks = peaks[peaks >= max(inner[0][0], rest_bytes[0])]
    at_inner = inner[0].searchsorted(peaks, side="right") - 1
    at_rest = rest_bytes.searchsorted(peaks, side="right") - 1
    return np.maximum(least, peaks), seconds + inner[1][at_inner] + rest[1][at_rest]


def best(curves: list[Curve]) -> Curve:
    peaks, seconds = (np.concatenate(part) for part in zip(*curves, strict=True))
    order = np.lexsort((seconds, peaks))
    before = np.minimum.accumulate(np.append(np.inf, seconds[order]))[:-1]
    order = order[seconds[order] < before]
    return peaks[order], seconds[order]

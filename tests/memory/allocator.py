"""What PyTorch's CPU allocator says of a run: an independent truth for the probes."""

from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

MARK = "mark of the test"


def mark() -> None:
    """Put a mark between the allocator's events."""
    with torch.profiler.record_function(MARK):
        pass


def allocator_record(run: Callable[[], object]) -> tuple[int, list[int]]:
    """Most bytes handed out at once during a run, and bytes handed out at each mark.

    Both are counted from the start of the run.
    """
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        mark()
        run()
        mark()
    results = profiler.profiler.kineto_results  # type: ignore[union-attr]
    events = sorted(results.events(), key=lambda event: event.start_ns())
    names = [event.name() for event in events]
    last = len(names) - names[::-1].index(MARK)
    live_bytes = peak_bytes = 0
    at_marks = []
    for event in events[names.index(MARK) + 1 : last]:
        if event.name() == "[memory]":
            live_bytes += event.nbytes()
            peak_bytes = max(peak_bytes, live_bytes)
        elif event.name() == MARK:
            at_marks.append(live_bytes)
    return peak_bytes, at_marks[:-1]

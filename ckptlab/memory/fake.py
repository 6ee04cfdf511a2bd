"""Run a model without its memory.

Fake tensors have shapes, dtypes and devices and no data; PyTorch works out what an
operation would return without running it. So bytes can be counted exactly for models
that fit nowhere. Values are unknown: code that looks at one (an `if` on a tensor, an
`.item()`) raises.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from torch._subclasses.fake_tensor import FakeTensorMode


@contextmanager
def without_memory() -> Iterator[None]:
    """Build and run models inside without allocating any data.

    A model built inside and its inputs, gradients and optimizer state are fake.
    A tensor made outside may be used inside: it is taken for a fake one of its shape.

    Example:
        >>> import torch
        >>> from ckptlab import format_bytes, parameter_bytes
        >>> with without_memory():
        ...     model = torch.nn.Linear(1_000_000, 1_000_000)
        >>> format_bytes(parameter_bytes(model))
        '3.64 TiB'
    """
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield

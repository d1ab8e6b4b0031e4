"""What the library's convolutions launch: run, predicted by the timing model, or only compiled.

The last two take NumPy arrays that nobody fills, and need no device.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from conv_cases import Case

Arrays: TypeAlias = tuple[Any, Any, Any, Any]
"""Images, filters, gradients of results, and a bias or None, in the order of memory."""
Job: TypeAlias = tuple[Case, str, Any]
"""A layer, a pass of it, and a tiling; None takes the library's choice."""


def launched(case: Case, arrays: Arrays, what: str, tiling: Any = None) -> Callable[[], Any]:
    """A pass of a layer by this project; gives an array in the order of memory."""
    from tawa.kernels import conv
    from tawa.kernels.conv_gradients import gradient_of_filters, gradient_of_images

    x, w, dy, bias = arrays
    if what == "dgrad":
        return lambda: gradient_of_images(dy, w, case.x, None, tiling, **case.arguments)
    if what == "wgrad":
        return lambda: gradient_of_filters(dy, x, case.w, None, tiling, **case.arguments)
    finish = {"bias": bias, "relu": bias is not None}
    work = (conv.conv1d, conv.conv2d, conv.conv3d)[case.dimensions - 1]
    return lambda: work(x, w, None, tiling, **finish, **case.arguments)


@contextmanager
def each_launch(act: Callable[..., None]) -> Iterator[None]:
    """In the block, `act` is called with the kernel, grid, arguments and options of each launch."""
    from tawa.driver.jit import Kernel

    before, Kernel._launch = Kernel._launch, act  # pyright: ignore
    try:
        yield
    finally:
        Kernel._launch = before


def unfilled(case: Case, what: str, dtype: str = "fp16") -> Arrays:
    """NumPy arrays of a layer that take no memory until something is written."""
    import numpy as np

    kind: Any = np.float16
    if dtype == "bf16":
        import ml_dtypes

        kind = ml_dtypes.bfloat16
    results = case.x[0], *case.results, case.w[0]
    bias = np.empty(case.w[0], kind) if what == "fused" else None
    return np.empty(case.x, kind), np.empty(case.w, kind), np.empty(results, kind), bias


def predicted(case: Case, what: str) -> list[tuple[str, float]]:
    """The kernels of a pass, and the microseconds of each by the timing model."""
    found: list[tuple[str, float]] = []

    def predict(kernel: Any, grid: Any, /, *args: Any, **options: Any) -> None:
        times = kernel.predict(*args, grid=grid, **options)
        found.append((kernel.__name__, times.kernel_seconds * 1e6))

    with each_launch(predict):
        launched(case, unfilled(case, what), what)()
    return found


def compiled(job: Job, dtype: str) -> str:
    """Compile what a pass of a layer launches, into the cache on disk; what failed, if anything."""
    case, what, tiling = job

    def build(kernel: Any, grid: Any, /, *args: Any, **options: Any) -> None:
        request, named = kernel.request(*args, **options), kernel._named(*args, **options)
        kernel._suited(request, named, options, grid)

    try:
        with each_launch(build):
            launched(case, unfilled(case, what, dtype), what, tiling)()
    except Exception as problem:
        return f"{case.layer} {what} {tiling}: {type(problem).__name__}: {problem}"[:300]
    return ""


def warmed(jobs: Sequence[Job], dtype: str, share: str) -> None:
    """Compile each N-th of what passes launch, for a share `i/N`; say what took how long."""
    number, count = map(int, share.split("/"))
    for job in jobs[number::count]:
        started = time.perf_counter()
        failed = compiled(job, dtype)
        seconds = time.perf_counter() - started
        print(f"{job[0].layer} {job[1]}: {seconds:.1f} s {failed}", flush=True)

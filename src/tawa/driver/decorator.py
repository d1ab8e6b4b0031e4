"""The decorator `@tawa.jit`: what makes a kernel of a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from tawa.base.user_frames import entry
from tawa.driver.jit import Kernel
from tawa.runtime.autotune import decorators_of

if TYPE_CHECKING:
    from tawa.driver.tuning import Tuner
    from tawa.runtime.autotune import Config


@overload
def jit(fn: Callable[..., Any]) -> Kernel: ...
@overload
def jit(
    *,
    tune: str | Path | Literal[True],
    configs: Sequence[Config] | None = None,
    do_not_specialize: tuple[str | int, ...] = (),
    do_not_specialize_on_alignment: tuple[str | int, ...] = (),
    **ignored: Any,
) -> Callable[[Callable[..., Any]], Tuner]: ...
@overload
def jit(
    *,
    tune: Literal[False] = False,
    do_not_specialize: tuple[str | int, ...] = (),
    do_not_specialize_on_alignment: tuple[str | int, ...] = (),
    **ignored: Any,
) -> Callable[[Callable[..., Any]], Kernel]: ...
@entry
def jit(
    fn: Callable[..., Any] | None = None,
    *,
    tune: str | Path | bool = False,
    configs: Sequence[Config] | None = None,
    do_not_specialize: tuple[str | int, ...] = (),
    do_not_specialize_on_alignment: tuple[str | int, ...] = (),
    **ignored: Any,
) -> Kernel | Tuner | Callable[[Callable[..., Any]], Kernel | Tuner]:
    """Make a kernel of a function in the tile language (or of one of Triton's kernels).

        import tawa
        import tawa.language as tl

        @tawa.jit
        def double(x, n, BLOCK: tl.constexpr):
            i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(x + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)

        double[(tawa.cdiv(n, 128),)](x, n, BLOCK=128)

    `kernel[grid](*arguments, **options)` runs one program for each point of the grid. Arguments
    are arrays (of PyTorch, CuPy, JAX or NumPy; NumPy's run in the simulator), tensor descriptors
    (`tawa.TensorDescriptor`), numbers, and values for parameters annotated `tl.constexpr`, which
    are compiled in. Options are the fields of `tawa.Options`. The first launch for given types,
    constants and options compiles. Errors are `tawa.TawaError`s, which point into the source.
    `help(tawa.Kernel)` lists what else a kernel can do: `compile`, `warmup`, `predict`.

    If Triton tunes the kernel, or computes parameters of it, Tawa does so instead.

    Parameters in `do_not_specialize` (names or positions) don't cause a compilation of their own
    for 1 and for multiples of 16, those in `do_not_specialize_on_alignment` for multiples of 16.
    Further keywords of `triton.jit` (`debug`, `noinline`, ...) are accepted and have no effect.

    With `tune`, launches are tuned (`tawa.tune`) over `configs` and the options that are left open;
    results are kept in the file that `tune` names, or, for True, in this process alone.
    """
    make = partial(
        Kernel,
        do_not_specialize=tuple(do_not_specialize),
        do_not_specialize_on_alignment=tuple(do_not_specialize_on_alignment),
    )
    if tune:
        from tawa.driver.tuning import Tuner

        file = None if tune is True else Path(tune)

        def tuner(plain: Callable[..., Any]) -> Tuner:
            return Tuner(make(plain), file, configs)

        return tuner
    return partial(decorators_of, kernel=make) if fn is None else decorators_of(fn, make)

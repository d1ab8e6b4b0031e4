"""A user's project, for type checkers: kernels, launches, tuning, prediction, Axon and CuPPL.

It is checked strictly by mypy and pyright (`test_typing.py`) and run in the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tawa
import tawa.language as tl
from tawa import axon, cuppl

Floats = npt.NDArray[np.float32]
Halfs = npt.NDArray[np.float16]


# --- kernels ------------------------------------------------------------------------------------


@tawa.jit
def add_kernel(x: Any, y: Any, out: Any, n: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@tawa.jit(do_not_specialize=("n",))
def softmax_kernel(x: Any, out: Any, n: Any, BLOCK: tl.constexpr) -> None:
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    inside = column < n
    values = tl.load(x + row * n + column, mask=inside, other=-float("inf"))
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * n + column, weights / tl.sum(weights, axis=0), mask=inside)


@tawa.jit
def product_kernel(
    a: Any,
    b: Any,
    c: Any,
    K: Any,
    M_TILE: tl.constexpr,
    N_TILE: tl.constexpr,
    K_TILE: tl.constexpr,
) -> None:
    m, n = tl.program_id(0) * M_TILE, tl.program_id(1) * N_TILE
    total = tl.zeros((M_TILE, N_TILE), dtype=tl.float32)
    for k in range(0, K, K_TILE):
        total = tl.dot(a.load([m, k]), b.load([n, k]).T, total)
    c.store([m, n], total.to(tl.float16))


@tawa.jit
def scale_kernel(x: Any, n: Any, factor: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)


# --- launches -----------------------------------------------------------------------------------


def add(x: Floats, y: Floats) -> Floats:
    """The sum of two arrays."""
    out = np.empty_like(x)
    block = 128
    add_kernel[(tawa.cdiv(x.size, block),)](x, y, out, x.size, BLOCK=block)
    return out


def softmax(x: Floats) -> Floats:
    """The softmax of each row."""
    rows, columns = x.shape
    out = np.empty_like(x)
    softmax_kernel[rows](x, out, columns, BLOCK=tawa.next_power_of_2(columns), num_warps=4)
    return out


def grid_of(named: Mapping[str, Any]) -> tuple[int, ...]:
    """As many programs as the named arguments of a launch ask for."""
    return (tawa.cdiv(int(named["n"]), int(named["BLOCK"])),)


def scale(x: Floats, factor: float) -> Floats:
    """The array itself, multiplied in place."""
    scale_kernel[grid_of](x, x.size, factor, BLOCK=64)
    return x


@dataclass(frozen=True)
class Tile:
    """Sizes of a product's tiles."""

    m: int = 64
    n: int = 64
    k: int = 64


def product(a: Halfs, b: Halfs, tile: Tile | None = None) -> Halfs:
    """The product of `a` and the transpose of `b`."""
    tile = tile or Tile()
    c = np.empty((a.shape[0], b.shape[0]), np.float16)
    described = [
        tawa.TensorDescriptor.from_tensor(a, [tile.m, tile.k]),
        tawa.TensorDescriptor.from_tensor(b, [tile.n, tile.k]),
        tawa.TensorDescriptor.from_tensor(c, [tile.m, tile.n]),
    ]
    grid = (tawa.cdiv(a.shape[0], tile.m), tawa.cdiv(b.shape[0], tile.n))
    compiled = product_kernel[grid](
        *described, a.shape[1], M_TILE=tile.m, N_TILE=tile.n, K_TILE=tile.k
    )
    assert compiled.name == "product_kernel"
    return c


# --- compiling without launching ----------------------------------------------------------------


def stages(folder: Path) -> list[Path]:
    """The files of all stages of a kernel."""
    compiled = scale_kernel.compile("*f32", "i32", "f32", BLOCK=128)
    return compiled.write(folder)


def machine_code() -> tuple[int, int, bytes, str]:
    """What the assembler says of a kernel."""
    compiled = scale_kernel.compile("*f32:16", "i32:16", "f32", BLOCK=128, num_warps=2)
    warnings: tuple[str, ...] = compiled.findings
    assert not warnings
    return compiled.n_regs, compiled.n_spills, compiled.cubin, compiled.explain


def predicted(x: Floats) -> float:
    """Microseconds that the timing model says a launch takes."""
    found = scale_kernel.predict(x, x.size, 2.0, BLOCK=64, grid=(4,))
    bound: str = found.bound
    assert bound
    return found.us


def pinned() -> tawa.Options:
    """Options that a launch may be given."""
    return tawa.Options(num_stages=3, consumers=2, persistent=True)


# --- tuning -------------------------------------------------------------------------------------


CONFIGS: Sequence[tawa.Config] = [
    tawa.Config({"BLOCK": block}, num_warps=warps) for block in (64, 128) for warps in (1, 2)
]

tuned = tawa.autotune(configs=CONFIGS, key=["n"])(scale_kernel)
sized = tawa.heuristics({"BLOCK": lambda named: tawa.next_power_of_2(named["n"])})(scale_kernel)


def tuned_scale(x: Floats, factor: float) -> tawa.Config:
    """The configuration that was chosen."""
    tuned[(tawa.cdiv(x.size, 64),)](x, x.size, factor)
    best: tawa.Config = tuned.best_config(x, x.size, factor, grid=(1,))
    return best


def sized_scale(x: Floats, factor: float) -> Floats:
    """A launch whose block follows from the array's size."""
    sized[(1,)](x, x.size, factor)
    return x


# --- errors, timelines --------------------------------------------------------------------------


def message_of(work: Callable[[], object]) -> str:
    """What is said of a mistake; empty if there is none."""
    try:
        work()
    except tawa.TawaError as error:
        where = "" if error.span is None else f"{error.span.line}: "
        return f"{where}{error.message} ({error.hint or 'no advice'})"
    return ""


def wrong_grid() -> str:
    """The message of a launch with a grid that is none."""
    x = np.ones(4, np.float32)
    return message_of(lambda: scale_kernel[(1.5,)](x, 4, 1.0, BLOCK=4))


def recorded(x: Floats) -> Iterator[str]:
    """The names of the kernels that were launched in a timeline's block."""
    with tawa.Timeline(detail="fine") as timeline:
        scale(x, 2.0)
        add(x, x)
    for launch in timeline.launches:
        yield launch.kernel


# --- the other languages ------------------------------------------------------------------------

LAYER = """
def layer (w: f32[i, o]) (x: f32[..b, i]) = relu (x @ w)
"""

COIN = """
input heads : int
def main () = let p = sample (beta 1.0 1.0) in observe (binomial 10 p) heads; p
"""


def layer(w: Floats, x: Floats) -> tuple[Floats, str]:
    """A layer by Axon, and its type."""
    module: axon.LoadedModule = axon.load(LAYER)
    function: axon.Function = module["layer"]
    result: Floats = function(w, x)
    return result, function.type


def layer_in_kernels(w: Floats, x: Floats) -> Floats:
    """The same as kernels, which the simulator runs."""
    compiled = axon.compile(axon.load(LAYER)["layer"], precision="f32")
    result: Floats = compiled(w, x)
    assert compiled.explain(w, x)
    return result


@axon.contract("f32[n, k] -> f32[k, m] -> f32[n, m]")
def checked(a: Floats, b: Floats) -> Floats:
    """A product whose arguments and result are held to a signature."""
    return a @ b


def coin(heads: int) -> tuple[float, float]:
    """Mean of a coin's bias after ten throws, and its standard error."""
    model: cuppl.Model = cuppl.model(COIN)
    posterior: cuppl.Posterior = model.smc(1000, data={"heads": heads}, seed=7)
    mean = posterior.mean()
    summary: str = posterior.summary()
    assert summary
    return mean, posterior.log_evidence


def limits() -> cuppl.Limits:
    """How far a run may go."""
    return cuppl.Limits(max_memory=1 << 26, max_steps=1 << 20)


# --- all of it ----------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What one walk through the project found."""

    sums: Floats
    weights: Floats
    products: Halfs
    config: tawa.Config
    registers: int
    kernels: list[str]
    mean: float
    message: str


def walk() -> Outcome:
    """Use everything once."""
    x = np.linspace(0, 1, 256, dtype=np.float32)
    halfs = np.eye(64, dtype=np.float16)
    registers, spills, cubin, explained = machine_code()
    assert spills == 0
    assert cubin
    assert explained
    assert predicted(x) > 0
    assert pinned().num_stages == 3
    relu, type_ = layer(np.ones((4, 2), np.float32), np.ones((3, 4), np.float32))
    assert type_
    assert np.array_equal(
        relu, layer_in_kernels(np.ones((4, 2), np.float32), np.ones((3, 4), np.float32))
    )
    assert checked(np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)).shape == (2, 2)
    mean, _ = coin(7)
    assert limits().max_depth > 0
    sized_scale(x.copy(), 1.0)
    return Outcome(
        sums=add(x, x),
        weights=softmax(x.reshape(4, 64)),
        products=product(halfs, halfs),
        config=tuned_scale(x.copy(), 2.0),
        registers=registers,
        kernels=list(recorded(x.copy())),
        mean=mean,
        message=wrong_grid(),
    )

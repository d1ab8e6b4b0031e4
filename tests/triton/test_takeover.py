"""`tawa.enable()`: launches of Triton's own functions, on CPU tensors, in the simulator."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tawa
from tawa.base.errors import TawaError
from tawa.runtime.tensormap import StoreNotAligned
from tawa.triton.enabling import NoTriton
from tawa.triton.takeover import AdoptedKernel, LeftToTriton, Takeover

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
tl: Any = pytest.importorskip("triton.language")


@triton.jit
def add_one(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n) + 1, i < n)


@triton.autotune(configs=[triton.Config({"BLOCK": b}) for b in (3, 64, 128)], key=["n", "none"])
@triton.heuristics({"EVEN": lambda given: given["n"] % 2 == 0})
@triton.jit
def tuned(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n)
    if EVEN:
        v += 2
    tl.store(y + i, v, i < n)


@triton.jit
def refused(x, n):
    tl.store(x, tl.load(x) ** n)


@triton.jit
def refused_without_arrays(n):
    n = n**n


@pytest.fixture(autouse=True)
def given_back() -> Iterator[None]:
    yield
    tawa.disable()


def grid(given: dict[str, Any]) -> tuple[int]:
    return (triton.cdiv(given["n"], given["BLOCK"]),)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_cpu_tensors_run_in_the_simulator(dtype: Any) -> None:
    x = torch.arange(6).to(dtype)
    y = torch.zeros(6).to(dtype)
    with tawa.enable() as takeover:
        add_one[grid](x, y, 6, BLOCK=8)
    assert torch.equal(y, x + 1)
    (row,) = takeover.summary()
    assert (row.kernel, row.place, row.launches) == ("add_one", "simulator", 1)
    assert "add_one" in str(takeover.summary())


def test_tuned_kernels_keep_their_configurations() -> None:
    x, y = torch.arange(100.0), torch.zeros(100)
    with tawa.enable(strict=True) as takeover:
        tuned[grid](x, y, 100)
    assert torch.equal(y, x + 2)
    assert tuned.best_config.kwargs == {"BLOCK": 64}  # the first that compiles
    places = {row.place: row.why for row in takeover.summary()}
    assert set(places) == {"simulator", "nowhere"}
    assert "tl.arange(0, 3)" in places["nowhere"]


@triton.jit
def copied(x, y, BLOCK: tl.constexpr):
    y.store([0], x.load([0]))


def test_hooks_of_configurations_run_before_these_are_compiled() -> None:
    """A hook sets the blocks of descriptors, without which no configuration would compile."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    def set_blocks(given: dict[str, Any]) -> None:
        given["x"].block_shape = given["y"].block_shape = [given["BLOCK"]]

    configs = [triton.Config({"BLOCK": b}, pre_hook=set_blocks) for b in (1, 64, 32)]
    kernel = triton.autotune(configs=configs, key=[])(copied)
    x, y = torch.arange(64.0), torch.zeros(64)
    described = [TensorDescriptor.from_tensor(array, [1]) for array in (x, y)]
    with tawa.enable(strict=True):
        kernel[(1,)](*described)
    assert kernel.best_config.kwargs == {"BLOCK": 64}
    assert torch.equal(y, x)


def test_jit_of_a_tuned_kernel_keeps_its_configurations() -> None:
    kernel: Any = tawa.jit(tuned)
    x, y = torch.arange(101.0), torch.zeros(101)
    kernel[grid](x, y, 101)
    assert torch.equal(y, x)
    assert [config.kwargs["BLOCK"] for config in kernel.configs] == [3, 64, 128]


def test_disabling_gives_launches_back() -> None:
    own = triton.JITFunction.run
    tawa.enable()
    assert triton.JITFunction.run is not own
    tawa.disable()
    assert triton.JITFunction.run is own
    assert tawa.enabled() is None


def test_what_is_refused_on_the_cpu_is_an_error() -> None:
    with tawa.enable() as takeover, pytest.raises(TawaError, match=r"\*\*"):
        refused[(1,)](torch.ones(1), 3)
    assert takeover.summary().launches("nowhere") == 1


def test_what_is_refused_goes_to_triton_with_one_warning() -> None:
    """Triton's part is played by a list: this machine may have no device."""
    ran: list[tuple[Any, ...]] = []

    def with_triton(function: Any, *args: Any, **more: Any) -> None:
        ran.append((function, args))

    takeover = Takeover(with_triton, with_triton, lambda _: None)
    with pytest.warns(LeftToTriton, match="runs with Triton"):
        takeover.run(refused_without_arrays, 3, grid=(1,), warmup=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        takeover.run(refused_without_arrays, 3, grid=(1,), warmup=False)
    assert ran == [(refused_without_arrays, (3,))] * 2
    (row,) = takeover.summary()
    assert (row.place, row.launches) == ("Triton", 2)
    assert row.why.startswith("UnsupportedSyntax")


def test_strict_refusals_are_errors() -> None:
    takeover = Takeover(pytest.fail, pytest.fail, lambda _: None, strict=True)
    with pytest.raises(TawaError):
        takeover.run(refused_without_arrays, 3, grid=(1,), warmup=False)


@pytest.mark.parametrize("left", ["add_one", add_one, tuned], ids=["name", "kernel", "tuner"])
def test_a_kernel_can_be_left_to_triton(left: Any) -> None:
    ran: list[Any] = []
    takeover = Takeover(lambda f, *a, **k: ran.append(f), pytest.fail, lambda _: None, leave=[left])
    x = torch.zeros(4)
    takeover.run(add_one, x, x, 4, BLOCK=4, grid=(1,), warmup=False)
    assert ran == ([] if left is tuned else [add_one])


def test_warming_up_compiles() -> None:
    with tawa.enable():
        compiled = add_one.warmup(torch.float32, torch.float32, 100, BLOCK=64, grid=(1,))
    assert compiled.n_regs > 0
    assert compiled.n_spills == 0


PROGRAM = """
import sys
import tawa
assert "triton" not in sys.modules
import torch, triton
assert tawa.enabled().strict is {strict}
"""


@pytest.mark.parametrize(("value", "strict"), [("1", False), ("strict", True)])
def test_the_environment_enables(value: str, strict: bool, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(strict=strict))
    path = os.pathsep.join([str(Path(tawa.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "TAWA_ENABLE": value, "PYTHONPATH": path}
    subprocess.run([sys.executable, program], env=environment, check=True, timeout=120)


def test_without_triton_there_is_nothing_to_enable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(NoTriton):
        tawa.enable()


def test_what_a_launch_gave_is_launched_again_and_counted() -> None:
    """Libraries that keep compiled kernels themselves launch those: `kernel[grid](*arguments)`."""
    x, y = torch.arange(10, dtype=torch.float32), torch.zeros(10)
    with tawa.enable(strict=True) as takeover:
        compiled = add_one[(1,)](x, y, 10, BLOCK=16)
        compiled[(1, 1, 1)](y, y, 10, 16)
    assert torch.equal(y, x + 2)
    assert [(row.kernel, row.launches) for row in takeover.summary().rows] == [("add_one", 2)]


def test_the_text_of_a_kernel_may_be_replaced_before_and_between_launches() -> None:
    x, y = torch.arange(10, dtype=torch.float32), torch.zeros(10)
    template = triton.JITFunction(add_one.fn)
    with tawa.enable(strict=True):
        for change, expected in (("+ 5", x + 5), ("* 3", x * 3)):
            template._unsafe_update_src(add_one.src.replace("+ 1", change))
            template[(1,)](x, y, 10, BLOCK=16)
            assert torch.equal(y, expected)
        add_one[(1,)](x, y, 10, BLOCK=16)
    assert torch.equal(y, x + 1)


def test_what_is_refused_is_an_error_of_triton_s_too() -> None:
    with tawa.enable(strict=True), pytest.raises(triton.CompilationError) as caught:
        refused[(1,)](torch.zeros(1), 2)
    assert isinstance(caught.value, TawaError)
    assert "`**` of run-time values" in str(caught.value)


def test_rows_that_are_no_boxes_go_through_pointers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tensor map is made in the simulator: the launch is told that one could not be."""
    asked: list[Any] = []
    start = AdoptedKernel.start

    def refused_once(self: AdoptedKernel, entry: Any, *rest: Any) -> None:
        asked.append(entry.compiled.options.through_pointers)
        if len(asked) == 1:
            error = StoreNotAligned("the rows of `y` end inside a piece")
            error.argument = "y"
            raise error
        start(self, entry, *rest)

    monkeypatch.setattr(AdoptedKernel, "start", refused_once)
    x, y = torch.arange(6.0), torch.zeros(6)
    with tawa.enable(strict=True):
        add_one[(1,)](x, y, 6, BLOCK=8)
    assert torch.equal(y, x + 1)
    assert asked == [(), ("y",)]

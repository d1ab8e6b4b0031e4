"""What Python shows of the package: names, help, and how objects print."""

import pydoc
import subprocess
import sys
from importlib import import_module
from inspect import isfunction

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa import axon, cuppl, tasks

LONGEST = 120

PUBLIC = ("tawa", "tawa.axon", "tawa.cuppl", "tawa.tasks", "tawa.kernels.gemm",
          "tawa.kernels.attention", "tawa.kernels.conv")  # fmt: skip
UNCHECKED = {
    "tawa.autotune", "tawa.enabled", "tawa.heuristics", "tawa.axon.compilations",
    "tawa.tasks.cdiv",
    "tawa.kernels.gemm.configuration", "tawa.kernels.gemm.configurations",
    "tawa.kernels.gemm.reference", "tawa.kernels.conv.reference",
}  # fmt: skip
"""What checks nothing that a user gives."""


@tawa.jit
def double(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


def test_dir_lists_what_is_public():
    code = "import tawa; print(*dir(tawa)); tawa.jit; import tawa.language; print(*dir(tawa))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = (line.split() for line in found.stdout.splitlines())
    assert before == sorted([*tawa.__all__, "__version__"])
    assert after == sorted([*tawa.__all__, "__version__", "language"])


@pytest.mark.parametrize("part", [axon, cuppl, tasks], ids=lambda part: part.__name__)
def test_dir_of_a_part_lists_what_is_public(part):
    assert dir(part) == sorted(part.__all__)


def test_help_of_jit_explains():
    text = pydoc.plain(pydoc.render_doc(tawa.jit))
    for word in ("kernel[grid](", "tl.constexpr", "tawa.Options", "TawaError", "NumPy"):
        assert word in text


@pytest.mark.parametrize("name", tawa.__all__)
def test_everything_public_has_help(name):
    assert getattr(tawa, name).__doc__


def objects():
    """One of each class that users hold, before and after it has run."""
    x = np.ones(256, np.float32)
    tuned = tawa.autotune(configs=[tawa.Config({"BLOCK": 128})], key=["n"])(double)
    yield from (tawa.cdiv, tl.dot, tawa.Options(num_stages=3), tawa.Config({"BLOCK": 128}))
    yield from (double, tuned, tawa.heuristics({"BLOCK": lambda named: 128})(double))
    yield double[(2,)](x, 256, BLOCK=128)
    yield from (double.compile(x, 256, BLOCK=128), double.warmup(x, 256, BLOCK=128))
    yield double.predict(x, 256, BLOCK=128, grid=(2,)).us
    tuned[(2,)](x, 256)
    yield tuned
    yield tawa.TensorDescriptor.from_tensor(x.reshape(16, 16), [16, 16])
    with tawa.Timeline() as timeline:
        double[(2,)](x, 256, BLOCK=128)
    yield timeline
    module = axon.load("def f (a: f32[n, 3]) = a + a")
    compiled = axon.compile(module["f"])
    yield from (module, module["f"], module["f"].contract, compiled)
    compiled(np.ones((2, 3), np.float32))
    yield from (compiled, compiled.plan(np.ones((2, 3), np.float32)))
    model = cuppl.model("def main () = flip 0.5")
    yield model
    posterior = model.smc(100)
    yield from (model, posterior, model.executable(True), model.elaborated, model.mh(1000))


def test_objects_print_on_one_line():
    long = [text for text in map(repr, objects()) if len(text) > LONGEST or "\n" in text]
    assert long == []


def exported():
    """What users import, by the module that exports them."""
    for home in PUBLIC:
        module = import_module(home)
        names = getattr(module, "__all__", ("attention",))
        yield from ((f"{home}.{name}", getattr(module, name)) for name in names)


def is_entry(function):
    return function.__code__.co_name == "entered"


def test_public_functions_hide_our_frames():
    bare = [name for name, value in exported() if isfunction(value) and not is_entry(value)]
    assert [name for name in bare if name not in UNCHECKED] == []


def test_a_wrong_call_shows_no_frame_of_ours():
    with pytest.raises(TypeError, match="missing 1 required positional argument") as caught:
        tawa.TensorDescriptor.from_tensor(np.ones(4))
    assert len(caught.traceback) == 1

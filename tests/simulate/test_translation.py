"""Translation validation: random kernels give the same answer at the tile, aref and hopper levels."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from random_kernels import RandomKernel, pipelines, pointwise, products, programs

import tawa
from tawa.base.errors import TawaError
from tawa.driver.compilation import Compilation
from tawa.frontend import lower_to_tile, parse_argument
from tawa.simulate.interpret import aref, tile
from tawa.simulate.interpret.errors import ProtocolError
from tawa.simulate.interpret.hopper import run
from tawa.simulate.interpret.launch import arrays_of, kernel_of, spec_of

EXAMPLES = 15

CANNOT_BE_MET = {
    "BadOption", "ClusterNotPossible", "ConsumersNotPossible", "NotSpecialisable",
    "PingPongNotPossible", "RegistersExceeded", "SharedMemoryExceeded", "SlicesNotPossible",
}  # fmt: skip
"""Errors that say that a combination of options is impossible: not what is tested here."""

quick = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def levels(kernel: RandomKernel, folder) -> dict[str, list[np.ndarray]]:
    """The arrays after running each level's module."""
    function = kernel.load(folder)
    request = function.request(*_arguments(kernel).values(), **kernel.constants, **kernel.options)
    work = Compilation(request.options)
    types = [parse_argument(text) for text in request.types.values()]
    modules = {"tile": work.level("tile", lower_to_tile(function, types, request.constants))}
    modules["aref"] = work.level("aref", modules["tile"].clone())
    modules["hopper"] = work.level("hopper", modules["aref"].clone())
    found = {}
    for level, module in modules.items():
        named = _arguments(kernel)
        values = [named[name] for name in request.types]
        if level == "hopper":
            spec = spec_of(module, kernel_of(module))
            run(module, kernel.grid, [named[n] for n in spec.arguments], multiprocessors=2)
        elif level == "aref":
            aref.run(module, kernel.grid, values, multiprocessors=2)
        else:
            tile.run(module, kernel.grid, values)
        found[level] = arrays_of(values)
    return found


def _arguments(kernel: RandomKernel) -> dict:
    return kernel.make(np.random.default_rng(11))


def agree(kernel: RandomKernel, folder) -> None:
    """Raise unless all levels give the same arrays, up to the order of additions."""
    try:
        found = levels(kernel, folder)
    except ProtocolError:
        raise
    except TawaError as error:
        assume(type(error).__name__ not in CANNOT_BE_MET)
        raise
    for level in ("aref", "hopper"):
        for expected, got in zip(found["tile"], found[level], strict=True):
            np.testing.assert_allclose(
                got.astype(float), expected.astype(float), rtol=2e-2, atol=2e-2, err_msg=level
            )


@quick
@given(kernel=products())
def test_products(kernel: RandomKernel, tmp_path):
    agree(kernel, tmp_path)


@quick
@given(kernel=pointwise())
def test_pointwise(kernel: RandomKernel, tmp_path):
    agree(kernel, tmp_path)


@quick
@given(kernel=programs())
def test_programs(kernel: RandomKernel, tmp_path):
    agree(kernel, tmp_path)


@quick
@given(kernel=pipelines())
def test_pipelines(kernel: RandomKernel, tmp_path):
    agree(kernel, tmp_path)


def test_a_wrong_level_is_noticed(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """The comparison can fail: a hopper run that adds a little is caught."""
    kernel = doubling()

    def spoiled(module, grid, args, plain=run, **options):
        plain(module, grid, args, **options)
        arrays_of(args)[-1][...] += 1

    monkeypatch.setitem(levels.__globals__, "run", spoiled)
    with pytest.raises(AssertionError, match="hopper"):
        agree(kernel, tmp_path)


def doubling() -> RandomKernel:
    """A simple kernel."""
    source = (
        "import tawa\nimport tawa.language as tl\n\n\n@tawa.jit\n"
        "def kernel(x_ptr, y_ptr, N: tl.constexpr):\n"
        "    i = tl.arange(0, N)\n    tl.store(y_ptr + i, tl.load(x_ptr + i) * 2.0)\n"
    )

    def make(random):
        x = random.standard_normal(64).astype(np.float32)
        return {"x_ptr": x, "y_ptr": np.zeros(64, np.float32)}

    return RandomKernel(source, (1,), make, {"N": 64}, {})


@pytest.mark.parametrize("options", [{"num_stages": 1}, {"cluster": 2, "persistent": True}])
def test_a_loaded_tile_that_is_changed_before_its_product(options, tmp_path):
    """Its slot is returned after it was read, also where the schedule moves the read."""
    source = (
        "import tawa\nimport tawa.language as tl\n\n\n@tawa.jit\n"
        "def kernel(a_desc, b_desc, c_desc, K, BLOCK: tl.constexpr):\n"
        "    acc = tl.zeros((64, 64), tl.float32)\n"
        "    for k in range(tl.cdiv(K, BLOCK)):\n"
        "        a = a_desc.load([0, k * BLOCK])\n"
        "        b = b_desc.load([0, k * BLOCK])\n"
        "        a = (a.to(tl.float32) * 0.5 + 0.25).to(tl.float16)\n"
        "        acc = tl.dot(a, b.T, acc)\n"
        "        acc = acc * 0.75\n"
        "    c_desc.store([0, 0], acc.to(tl.float16))\n"
    )

    def make(random):
        a, b = (random.standard_normal((64, 160)).astype(np.float16) for _ in range(2))
        describe = tawa.TensorDescriptor.from_tensor
        c = np.full((64, 64), np.nan, np.float16)
        tiles = {"a_desc": describe(a, [64, 32]), "b_desc": describe(b, [64, 32])}
        return {**tiles, "c_desc": describe(c, [64, 64]), "K": 160}

    agree(RandomKernel(source, (1,), make, {"BLOCK": 32}, options), tmp_path)

"""What a launch's arguments ask to be compiled, and what decides which kernel it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.driver.jit import Kernel
from tawa.runtime.launch_errors import ConstantNotSpecialized, WrongLaunchArguments


def text(x, n, m, BLOCK: tl.constexpr, num_warps: tl.constexpr = 4):
    pass


def plain(x, n, m, BLOCK: tl.constexpr):
    pass


X = np.zeros(64, np.float32)


def asked(fn: Any = plain, *args: Any, **given: Any) -> dict[str, str]:
    """The types that a launch's values ask for."""
    options = {k: given.pop(k) for k in list(given) if k.startswith("do_not") or k == "types"}
    kernel = Kernel(fn, **options)
    return kernel.request(*(args or (X, 16, 5)), BLOCK=8, **given).types


@pytest.mark.parametrize(
    ("options", "n", "m"),
    [({}, "i32:16", "i32"), ({"do_not_specialize": ("n",)}, "i32", "i32"),
     ({"do_not_specialize": (1,)}, "i32", "i32"), ({"do_not_specialize": (2,)}, "i32:16", "i32"),
     ({"do_not_specialize_on_alignment": ("n",)}, "i32", "i32"),
     ({"do_not_specialize_on_alignment": (1,)}, "i32", "i32"),
     ({"do_not_specialize_on_alignment": (0,)}, "i32:16", "i32"),
     ({"types": {"m": "i64"}}, "i32:16", "i64")],
)  # fmt: skip
def test_numbers_that_are_compiled_for(options: dict[str, Any], n: str, m: str) -> None:
    found = asked(plain, **options)
    assert (found["n"], found["m"]) == (n, m)


@pytest.mark.parametrize(
    ("options", "left"),
    [({}, ["x", "n"]), ({"do_not_specialize": ("m",)}, ["x", "n", "m"]),
     ({"do_not_specialize": (2,)}, ["x", "n", "m"]), ({"do_not_specialize": (1,)}, ["x", "n"]),
     ({"do_not_specialize_on_alignment": (2,)}, ["x", "n"])],
)  # fmt: skip
def test_ones_that_are_compiled_in(options: dict[str, Any], left: list[str]) -> None:
    assert list(asked(plain, X, 16, 1, **options)) == left


@pytest.mark.parametrize("named", [("BLOCK",), (3,)])
def test_a_constant_is_specialised(named: Any) -> None:
    with pytest.raises(ConstantNotSpecialized, match="BLOCK"):
        Kernel(plain, do_not_specialize=named).request(X, 16, 5, 8)
    Kernel(plain, do_not_specialize_on_alignment=named).request(X, 16, 5, 8)


def test_types_constants_and_options() -> None:
    request = Kernel(plain).request("*f16:16", "i32", 1, BLOCK=32, num_stages=3, num_warps=8)
    assert request.types == {"x": "*f16:16", "n": "i32"}
    assert request.constants == {"BLOCK": 32, "m": 1}
    assert (request.options.num_stages, request.options.num_warps) == (3, 8)


def test_an_option_that_is_a_parameter_too_is_both() -> None:
    """Where a launch gives it; else the parameter's default is no option."""
    given = Kernel(text).request(X, 16, 5, BLOCK=8, num_warps=2)
    assert (given.constants["num_warps"], given.options.num_warps) == (2, 2)
    left = Kernel(text).request(X, 16, 5, BLOCK=8)
    assert left.constants["num_warps"] == 4
    assert left.options == Kernel(plain).request(X, 16, 5, BLOCK=8).options


def test_keys_of_requests_tell_equal_numbers_of_other_types_apart() -> None:
    keys = {Kernel(plain).request(X, 16, 5, BLOCK=value).key for value in (1, 1.0, True, 0.0, -0.0)}
    assert len(keys) == 5
    assert Kernel(plain).request(X, 16, 5, 8).key == Kernel(plain).request(X, 32, 7, 8).key
    assert Kernel(plain).request(X, 16, 5, 8).key != Kernel(plain).request(X, 16, 16, 8).key


SAME = [((X, 16, 5, 8), {}), ((X, 32, 7), {"BLOCK": 8}), ((np.ones(9, np.float32), 48, 3, 8), {})]
OTHER = [
    ((X, 16, 5, 9), {}), ((X, 5, 16, 8), {}), ((X.astype(np.float16), 16, 5, 8), {}),
    ((X, 16, 1, 8), {}), ((X, 16, 5, 8), {"num_warps": 8}), ((X, 16, 5.0, 8), {}),
    ((X, 16, None, 8), {}), ((X, 2**40, 5, 8), {}),
]  # fmt: skip


def test_what_decides_which_kernel_runs() -> None:
    kernel = Kernel(plain)
    keys = {kernel.launch_key(args, dict(kwargs)) for args, kwargs in SAME}
    assert len(keys) == 1
    for args, kwargs in OTHER:
        key = kernel.launch_key(args, dict(kwargs))
        assert key not in keys, (args[1:], kwargs)
        keys.add(key)


def test_arguments_by_name() -> None:
    kernel = Kernel(text)
    found = kernel.arguments((X, 16), {"m": 5, "BLOCK": 8})
    assert found["x"] is X
    assert {name: found[name] for name in ("n", "m", "BLOCK", "num_warps")} == {
        "n": 16, "m": 5, "BLOCK": 8, "num_warps": 4}  # fmt: skip


@pytest.mark.parametrize(
    ("args", "kwargs", "found"),
    [((X, 16), {"BLOCK": 8}, "2 by position, BLOCK by name"),
     ((X, 16, 5, 8, 9, 10), {}, "6 by position, none by name"),
     ((X, 16, 5, 8), {"x": X}, "4 by position, x by name"),
     ((), {}, "0 by position, none by name")],
)  # fmt: skip
def test_calls_that_do_not_fit(args: tuple[Any, ...], kwargs: dict[str, Any], found: str) -> None:
    kernel = Kernel(plain)
    for ask in (kernel.request, lambda *a, **k: kernel.launch_key(a, k)):
        with pytest.raises(WrongLaunchArguments) as caught:
            ask(*args, **kwargs)
        assert caught.value.found == found
        assert caught.value.expected == "plain(x, n, m, BLOCK)"


def test_an_argument_that_is_none_is_named() -> None:
    with pytest.raises(tawa.TawaError) as caught:
        Kernel(plain).launch_key((X, 16, object(), 8), {})
    assert "it is the argument `m`" in str(caught.value)


def test_a_kernel_needs_a_grid() -> None:
    with pytest.raises(WrongLaunchArguments, match="launched without a grid"):
        Kernel(plain)(X, 16, 5, 8)

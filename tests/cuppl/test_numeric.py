from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_calls import FIELD, Natives

from tawa import cuppl
from tawa.cuppl.natives import frames
from tawa.cuppl.numeric import elementary, philox, special
from tawa.cuppl.numeric.linear import dot_range
from tawa.cuppl.numeric.primitives import Context
from tawa.cuppl.translation.native import NATIVES

special_functions = pytest.importorskip("scipy.special")

FUNCTIONS = {
    "log": np.log,
    "exp": np.exp,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "atan": np.arctan,
    "sigmoid": special_functions.expit,
    "lgamma": special_functions.gammaln,
    "digamma": special_functions.digamma,
    "erf": special_functions.erf,
    "erfc": special_functions.erfc,
    "normal_quantile": special_functions.ndtri,
    "normal_cdf": special_functions.ndtr,
}


@pytest.fixture(scope="module")
def natives() -> Natives:
    assert "restore_draw_ahead" in frames.__dict__  # importing it has registered it
    more = ["philox", "next_bits", "next_uniform", "next_bits_ahead", "restore_draw_ahead", "power"]
    more += ["philox_group", "group_draws"]
    return Natives([*FUNCTIONS, *more])


def points(name: str) -> list[float]:
    """Arguments of all sizes within a function's domain."""
    random = np.random.default_rng(0)
    values = np.concatenate(
        [
            random.normal(size=200) * 3,
            random.uniform(0, 2, 200),
            np.exp(random.normal(size=200) * 4),
        ]
    )
    if name in ("log", "lgamma", "digamma"):
        values = np.concatenate([np.abs(values), 1 + random.normal(size=100) * 1e-3])
    elif name == "log1p":
        values = np.abs(values) - 0.9
    elif name == "normal_quantile":
        values = np.concatenate([random.uniform(0, 1, 300), 10.0 ** -random.uniform(0, 16, 100)])
    elif name in ("exp", "expm1"):
        values = np.clip(values, -700, 700)
    elif name == "erfc":
        values = np.clip(values, -20, 20)
    return [float(v) for v in values]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_accurate_and_compiled_to_the_same_bits(name: str, natives: Natives) -> None:
    for x in points(name):
        exact = float(FUNCTIONS[name](x))
        found = natives(name, x)
        bound = 1e-14 if name in ("lgamma", "digamma") else 2e-15
        tail = 1e-12 * abs(exact) if name in ("normal_cdf", "erfc") else 0.0
        assert abs(found - exact) <= bound * max(1.0, abs(exact)) + tail, x
        assert found == NATIVES[name](x)  # the reference, in plain Python: bit for bit


@pytest.mark.parametrize(
    ("name", "x", "value"),
    [
        ("log", 0.0, -math.inf),
        ("log", -1.0, math.nan),
        ("log", math.inf, math.inf),
        ("log", 5e-324, math.log(5e-324)),
        ("exp", 1000.0, math.inf),
        ("exp", -1000.0, 0.0),
        ("exp", -740.0, math.exp(-740.0)),
        ("exp", math.nan, math.nan),
        ("lgamma", 0.0, math.inf),
        ("lgamma", -2.5, math.lgamma(-2.5)),
        ("digamma", 0.0, math.nan),
    ],
)
def test_edges(name: str, x: float, value: float, natives: Natives) -> None:
    found = natives(name, x)
    assert found == pytest.approx(value, rel=1e-13, nan_ok=True)


@given(st.floats(1e-150, 1e150), st.floats(-2, 2))
@settings(max_examples=100, deadline=None)
def test_power_is_close(x: float, y: float) -> None:
    assert elementary.power(x, y) == pytest.approx(x**y, rel=1e-12)


@given(st.floats(-1e3, 1e3), st.integers(-60, 60))
@settings(max_examples=200, deadline=None)
def test_whole_powers_are_rounded_once(x: float, n: int) -> None:
    if x != 0.0 and 1e-280 < abs(Fraction(x) ** n) < 1e300:
        assert elementary.power(x, float(n)) == float(Fraction(x) ** n)


def test_powers_at_the_edges(natives: Natives) -> None:
    inf = math.inf
    cases = [(-2.0, 3.0), (10.0, 15.0), (2.0, -1074.0), (-2.0, 1023.0), (inf, -3.0), (-inf, 3.0)]
    cases += [(inf, 2.5), (0.1, 400.0), (-1.0, inf), (0.5, inf), (1e-310, 1.0), (4.0, 0.5)]
    for x, y in cases:
        assert natives("power", x, y) == elementary.power(x, y) == x**y, (x, y)
    assert natives("power", 2.0, 1024.0) == inf
    assert natives("power", -2.0, 1025.0) == -inf
    assert natives("power", 1e-310, -1.0) == inf


# Random123 1.14, kat_vectors: philox4x32 10.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_philox_known_answers(
    counter: tuple[int, ...], key: tuple[int, ...], expected: tuple[int, ...], natives: Natives
) -> None:
    assert natives("philox", *counter, *key) == expected
    assert philox.philox(*counter, *key) == expected  # type: ignore[call-arg]


def test_streams_replay_and_differ(natives: Natives) -> None:
    natives.reset(seed=7, particle=3)
    first = [natives("next_uniform") for _ in range(9)]
    reference = Context(key0=7, particle=3)
    assert first == [philox.next_uniform(reference) for _ in range(9)]
    natives.reset(seed=7, particle=4)
    assert first != [natives("next_uniform") for _ in range(9)]
    assert all(0.0 < u < 1.0 for u in first)


def test_uniform_never_reaches_its_ends() -> None:
    assert philox.uniform_of(0) == 0.5 * 2.0**-52
    assert philox.uniform_of(-1) == (2.0**52 - 0.5) * 2.0**-52 < 1.0


@given(st.integers(0, 2**64 - 1))
def test_uniforms_are_the_middles_of_cells(bits: int) -> None:
    assert philox.uniform_of(bits) == (float(bits >> 12) + 0.5) * 2.0**-52


def test_draws_made_ahead_are_the_same(natives: Natives) -> None:
    reference = Context(key0=7, particle=3, step=5, stream=2)
    wanted = [philox.next_uniform(reference) for _ in range(30)]
    room = np.zeros(philox.ROOM_WORDS, dtype=np.int64)
    for start in (0, 1, 7, 8, 13):
        natives.reset(seed=7, particle=3)
        for name, value in (("step", 5), ("stream", 2), ("room", room.ctypes.data)):
            natives.context[FIELD[name]] = value
        natives("restore_draw_ahead", start)
        found = [philox.uniform_of(natives("next_bits_ahead")) for _ in range(start, 30)]
        assert found == wanted[start:]


def test_draws_made_for_a_group_are_the_same(natives: Natives) -> None:
    room = np.zeros(philox.ROOM_WORDS, dtype=np.int64)
    natives.reset(seed=7)
    for name, value in (("step", 5), ("stream", 2), ("room", room.ctypes.data)):
        natives.context[FIELD[name]] = value
    natives("philox_group", 16)
    for slot in range(philox.GROUP):
        reference = Context(key0=7, particle=16 + slot, step=5, stream=2)
        natives.context[FIELD["particle"]] = 16 + slot
        natives.context[FIELD["ahead"]] = natives("group_draws", slot)
        natives.context[FIELD["draw"]] = 0
        natives.context[FIELD["made"]] = philox.GROUP_DRAWS
        found = [philox.uniform_of(natives("next_bits_ahead")) for _ in range(20)]
        assert found == [philox.next_uniform(reference) for _ in range(20)]


def test_derivative_of_lgamma() -> None:
    for x in (0.1, 0.7, 1.0, 3.3, 50.0):
        h = 1e-5 * x
        slope = (special.lgamma(x + h) - special.lgamma(x - h)) / (2 * h)
        assert special.digamma(x) == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_products_of_any_length_have_the_bits_of_the_definition() -> None:
    """Long ones are made by vector instructions."""
    model = cuppl.model("input v : vector[float]\ninput w : vector[float]\ndef main () = dot v w")
    random = np.random.default_rng(1)
    for n in range(40):
        v, w = random.normal(size=n) * 10.0 ** random.integers(-8, 8, n), random.normal(size=n)
        found = model.enumerate(data={"v": v, "w": w}).values[0]
        assert found == dot_range(v, 0, w, 0, n)

"""Where a launch runs: its arrays' device, that of the machine, or the simulator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tawa.base.errors import TawaError
from tawa.driver.entries import SIMULATOR, captures_of, guard_of, place_of
from tawa.runtime.arrays import HOST


def kinds(*devices: int | None) -> dict[str, Any]:
    """Arguments by name: on devices, on the host, or no arrays."""
    return {f"x{n}": SimpleNamespace(device=d, library="numpy") for n, d in enumerate(devices)}


@pytest.mark.parametrize(
    ("devices", "asked", "place"),
    [
        ((), None, 0), ((None, None), None, 0), ((HOST,), None, HOST), ((None, HOST), None, HOST),
        ((1,), None, 1), ((None, 1, 1), None, 1), ((0, None), None, 0), ((HOST, HOST), None, HOST),
        ((), SIMULATOR, HOST), ((None,), SIMULATOR, HOST), ((HOST, None), SIMULATOR, HOST),
    ],
)  # fmt: skip
def test_a_launch_runs_where_its_arrays_lie(
    devices: tuple[int | None, ...], asked: Any, place: int
) -> None:
    assert place_of(kinds(*devices), asked) == place


@pytest.mark.parametrize(
    ("devices", "asked", "named"),
    [((0, 1), None, "x1"), ((None, 1, 0), None, "x2"), ((HOST, 0), None, "x1"),
     ((0, HOST), None, "x1"), ((HOST, None, 0), SIMULATOR, "x2"), ((1,), SIMULATOR, "x0")],
)  # fmt: skip
def test_arrays_in_several_places_are_refused(
    devices: tuple[int | None, ...], asked: Any, named: str
) -> None:
    with pytest.raises(TawaError, match=named):
        place_of(kinds(*devices), asked)


def test_nothing_of_the_host_is_captured() -> None:
    assert captures_of(kinds(HOST), HOST)(None) is False
    assert captures_of(kinds(HOST), HOST)(7) is False


@pytest.mark.parametrize(
    ("apart", "alike", "looks"),
    [((), (), False), ((("a", "b"),), (), True), ((("a", "c.0"),), (), False),
     ((("a", "b"),), (("a", "b", "n", "m"),), True), ((("a", "b"),), (("a", "b", "n", "z"),), False)],
)  # fmt: skip
def test_arrays_are_looked_at_if_all_of_them_are_parameters(
    monkeypatch: pytest.MonkeyPatch, apart: Any, alike: Any, looks: bool
) -> None:
    monkeypatch.setattr("tawa.driver.entries.compile_guard", lambda *given: given)
    spec = SimpleNamespace(apart=apart, alike=alike, entry="k")
    parameters: Any = [SimpleNamespace(name=name) for name in "abnm"]
    compiled: Any = SimpleNamespace(spec=spec)
    found: Any = guard_of(compiled, parameters, {}, 0)
    if looks:
        assert found == (parameters, apart, {}, "k", alike)
        found = guard_of(compiled, parameters, {}, HOST)
    assert found((), ()) is None if apart else found is None

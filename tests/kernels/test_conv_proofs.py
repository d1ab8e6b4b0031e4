"""The checker proves the protocols of the convolutions' kernels: windows go back after all taps."""

from typing import Any

import numpy as np
import pytest

from tawa.kernels import conv
from tawa.kernels.conv import Tiling, conv2d, reference
from tawa.simulate.check.protocol import check

TURNS = (("persistent", True), ("ping_pong", True))
CASES = {
    "windows": (Tiling("windows", 1, 16, 8, 64, 64), 1),
    "turns": (Tiling("windows", 1, 16, 8, 64, 64, TURNS), 1),
    "planes": (Tiling("windows", 1, 8, 8, 64, 64), 2),
    "resident": (Tiling("resident", 1, 16, 8, 64, 64), 1),
    "taps": (Tiling("taps", 2, 8, 8, 64, 64), 1),
}


class _Checked:
    """A kernel whose launches are checked on the arrays given."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def run(*args: Any, **constants: Any) -> None:
            options = {k: constants.pop(k) for k in ("persistent", "ping_pong") if k in constants}
            names = [p.name for p in self.kernel.parameters]
            given = {**dict(zip(names, args, strict=False)), **constants}
            known = self.kernel.constexpr_names
            types = {n: given[n] if n in known else _type(given[n]) for n in names}
            compiled = self.kernel.compile(**types, **options)
            values = [given[name] for name in compiled.spec.arguments]
            self.report = check(compiled.module("hopper"), grid, values, multiprocessors=2)

        return run


def _type(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return "*f16"
    return "i32" if isinstance(value, int) else value


@pytest.mark.parametrize("name", CASES)
def test_proved(name: str, monkeypatch: pytest.MonkeyPatch):
    tiling, stride = CASES[name]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 18, 18, 64)).astype(np.float16)
    w = (rng.standard_normal((64, 3, 3, 64)) / 24).astype(np.float16)
    checked = _Checked(conv.KERNELS[tiling.kernel])
    monkeypatch.setitem(conv.KERNELS, tiling.kernel, checked)
    y = conv2d(x, w, None, tiling, stride=stride)
    assert not checked.report.cut
    assert np.abs(y - reference(x, w, stride=stride)).max() < 1e-2

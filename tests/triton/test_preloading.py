"""What was compiled once is compiled before any launch elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

import tawa.language as tl
from tawa.triton.kernel import RUNTIME, jit
from tawa.triton.preloading import NotPreloaded, request_of, specialization_data


@jit
def filled(x, parts, N: tl.constexpr, TYPE: tl.constexpr):
    tl.store(x + tl.arange(0, N), tl.full((N,), parts[0] + parts[1][0], TYPE))


def test_a_hook_is_told_what_preload_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []
    monkeypatch.setitem(vars(RUNTIME), "jit_cache_hook", lambda **told: heard.append(told))
    arguments = (1, (tl.constexpr(2),))
    warm = filled.warmup("*f32:16", arguments, 64, tl.float32, grid=(1,))
    text = heard[0]["compile"]["specialization_data"]
    assert filled.preload(text).hash == warm.hash
    (said,) = heard
    assert said["key"]
    assert (
        request_of("filled", text).key == filled.request("*f32:16", arguments, 64, tl.float32).key
    )
    with pytest.raises(NotPreloaded, match="another kernel"):
        request_of("other", text)


def test_constants_without_a_text_are_not_told() -> None:
    request = filled.request("*f32:16", (1, (tl.constexpr(2),)), 64, print)
    assert specialization_data("filled", request) is None

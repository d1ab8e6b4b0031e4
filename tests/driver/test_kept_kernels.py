"""Kernels that are kept on disk: found as they were made, and made again where they cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tawa
import tawa.language as tl
from tawa.driver import compile_cache


@tawa.jit
def doubled(x, y, n):
    at = tl.program_id(0) * 32 + tl.arange(0, 32)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TAWA_CACHE_DIR", str(tmp_path))
    return "0" * 64


def test_what_is_kept_is_found(key: str) -> None:
    compiled = doubled.compile("*f32", "*f32", "i32")
    assert compile_cache.find(key, "doubled") is None
    assert not compile_cache.has(key)
    compile_cache.keep(key, compiled)
    assert compile_cache.has(key)
    found = compile_cache.find(key, "doubled")
    assert found is not None
    assert found.name == "doubled"
    assert dict(found.stages) == dict(compiled.stages)
    assert (found.spec, found.log, found.assembled) == (
        compiled.spec, compiled.log, compiled.assembled,
    )  # fmt: skip
    assert found.remarks == compiled.remarks


@pytest.mark.parametrize(
    "entry",
    [{"json": b"{"}, {"json": b"{}"}, {"json": b"[]", "cubin": b""}, {"cubin": b"x"},
     {"json": b'{"spec": "{}", "assembled": "", "log": "", "decisions": ""}', "cubin": b""}],
    ids=["no JSON", "no code", "a list", "no facts", "another form"],
)  # fmt: skip
def test_what_cannot_be_read_is_not_found(key: str, entry: dict[str, bytes]) -> None:
    compile_cache.default_cache().put(key, entry)
    assert compile_cache.has(key)
    assert compile_cache.find(key, "k") is None


def test_what_was_compiled_is_known(key: str) -> None:
    """By this process, or by another one into the cache on disk; not with another option."""
    kernel = tawa.jit(doubled.fn)
    types = "*f32", "*f32", "i32"
    request, other = kernel.request(*types), kernel.request(*types, num_warps=2)
    assert not kernel.is_compiled(request)
    kernel.compile(*types)
    assert kernel.is_compiled(request)
    assert not kernel.is_compiled(other)
    assert tawa.jit(doubled.fn).is_compiled(request), "it is on disk"
    for path in Path(os.environ["TAWA_CACHE_DIR"]).rglob("*.kernel"):
        path.unlink()
    assert kernel.is_compiled(request), "this process has it"
    assert not tawa.jit(doubled.fn).is_compiled(request)

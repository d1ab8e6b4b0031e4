"""What can be asked of a compiled kernel: its stages in files, a launch, what it uses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import tawa
import tawa.language as tl
from tawa.driver.compiled import Compiled
from tawa.runtime.compile_log import CompileReport, FunctionUsage


@tawa.jit
def copied(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at))


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return copied.compile("*f32", "*f32", 64)


def test_stages_are_written_as_they_are(compiled: Compiled, tmp_path: Path) -> None:
    folder = tmp_path / "some" / "where"
    written = compiled.write(folder)
    assert written == [folder / f"copied.{stage}" for stage in compiled.stages]
    for path, content in zip(written, compiled.stages.values(), strict=True):
        assert path.read_bytes() == (content if isinstance(content, bytes) else content.encode())
    assert compiled.write(folder) == written, "the folder may be there"


def test_only_what_was_compiled_for_a_launch_is_launched(compiled: Compiled) -> None:
    with pytest.raises(tawa.TawaError, match="was compiled, not for a launch"):
        compiled[(1,)]


def test_what_it_is_shows_what_it_takes(compiled: Compiled) -> None:
    text = repr(compiled)
    assert text.startswith(f"<compiled copied: {compiled.spec.threads} threads, ")
    assert text.endswith(f"stages {', '.join(compiled.stages)}>")
    assert str(compiled.module("hopper")) == str(compiled.module("hopper"))
    assert compiled.module("hopper") is not compiled.module("hopper")


def test_what_it_takes_has_triton_s_names(compiled: Compiled) -> None:
    usage = FunctionUsage("copied", registers=40, spill_stores=64, spill_loads=4)
    told = replace(compiled, assembled=CompileReport((usage,)))
    assert (told.n_regs, told.n_spills, told.n_max_threads) == (40, 16, told.spec.threads)
    wide = replace(told, spec=replace(told.spec, threads=384, cluster=(2, 1, 1)))
    found = wide.metadata
    assert (found.num_warps, found.num_ctas, found.cluster_dims) == (12, 2, (2, 1, 1))
    assert (found.name, found.shared) == (wide.spec.entry, wide.spec.shared_bytes)
    assert told.kernel == told.cubin == told.stages["cubin"]
    other = replace(told, stages={**told.stages, "cubin": told.cubin + b"x"})
    assert other.hash != told.hash == replace(told).hash

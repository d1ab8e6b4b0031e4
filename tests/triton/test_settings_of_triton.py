"""What an installed Triton's settings say holds for launches that `tawa.enable()` takes over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tawa
from tawa.base.errors import TawaError
from tawa.triton.objects import OtherTarget

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
tl: Any = pytest.importorskip("triton.language")


@pytest.fixture(autouse=True)
def enabled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Strict, with settings of a test's own."""
    for name in ("runtime", "language"):
        monkeypatch.setattr(triton.knobs, name, getattr(triton.knobs, name).copy())
    with tawa.enable(strict=True):
        yield


def shown(specialization: Any) -> str:
    return f"twice_{specialization.signature['x']}_{specialization.constants['N']}"


def cost(grid: Any, metadata: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"flops": grid[0] * arguments["N"]}


def made() -> Any:
    @triton.jit(repr=shown, launch_metadata=cost)
    def twice(x, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(x + i, tl.load(x + i) * 1.5 + 1.0)

    return twice


def test_a_kernel_is_shown_by_the_name_that_its_author_gave() -> None:
    assert made()[(1,)](torch.ones(16), N=16).name == "twice_*fp32_16"


def test_hooks_hear_of_launches() -> None:
    heard: list[Any] = []
    triton.knobs.runtime.launch_enter_hook = lambda details: heard.append(details.get())
    chain = triton.knobs.HookChain()
    chain.add(lambda details: heard.append("left"))
    triton.knobs.runtime.launch_exit_hook = chain
    kernel, x = made(), torch.ones(16)
    kernel[(1,)](x, N=16)[(1,)](x, N=16)
    assert [h if h == "left" else (h["name"], h["flops"]) for h in heard] == [
        ("twice_*fp32_16", 16),
        "left",
    ] * 2


def test_hooks_hear_of_compilations_and_preload_compiles_what_they_were_told() -> None:
    heard: list[Any] = []
    triton.knobs.runtime.jit_cache_hook = lambda **told: heard.append(told)
    kernel = made()
    warm = kernel.warmup(torch.ones(16), N=16, grid=(1,))
    kernel.warmup(torch.ones(16), N=16, grid=(1,))
    (told,) = heard
    assert told["fn"].jit_function is kernel
    assert kernel.preload(told["compile"]["specialization_data"]).hash == warm.hash
    assert len(heard) == 1


def test_products_and_sums_are_fused_as_the_settings_say() -> None:
    kernel, x = made(), torch.ones(16)
    assert "fma.rn.f32" in kernel.warmup(x, N=16, grid=(1,)).asm["ptx"]
    triton.knobs.language.default_fp_fusion = False
    assert "fma.rn.f32" not in kernel.warmup(x, N=16, grid=(1,)).asm["ptx"]


def test_other_architectures_are_refused() -> None:
    kernel, x = made(), torch.ones(16)
    kernel.warmup(x, N=16, grid=(1,), arch="sm90")
    with pytest.raises(OtherTarget, match="capability 80"):
        kernel[(1,)](x, N=16, arch="sm80")
    triton.knobs.runtime.override_arch = "sm100"
    with pytest.raises(OtherTarget, match="capability 100"):
        kernel[(1,)](x, N=16)


@triton.jit
def misplaced(x, N: tl.constexpr):
    tl.store(x + tl.arange(0, N)[:, None], tl.expand_dims(tl.arange(0, N), 7))


def test_errors_have_a_cause_that_says_what_is_wrong_without_the_place() -> None:
    with pytest.raises(triton.CompilationError) as caught:
        misplaced[(1,)](torch.ones(16), N=16)
    assert isinstance(caught.value, TawaError)
    assert str(caught.value.__cause__) == caught.value.message

"""Attention's gradients beside cuDNN and FlashAttention-3: bf16, 16384 tokens.

    python benchmarks/attention_backward.py [--rows FOLDER] [--lengths 2048] [--dims 64,128]

Only the gradients are timed, from what each contender's own forward pass keeps. Tawa's are those of
`tawa.kernels.attention_gradients` into tensors that are there, in both of its ways; cuDNN is
reached through PyTorch's `scaled_dot_product_attention`, FlashAttention-3 through a package that
has its backward pass, if one is here. Tensors are [batch, rows, heads, D] in memory for all.
Contenders take turns: soak, measure, forward and backward.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rows import Run
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from tawa.kernels.attention import attention
from tawa.kernels.attention_gradients import attention_gradients
from tawa.runtime.timing import interleaved

TOKENS, WIDTH = 16384, 2048
MAX_ERROR = 1.5e-2
"""Relative Frobenius error of each of the first head's gradients, in bf16."""

Grads = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Case:
    """A shape: [TOKENS / rows, rows, WIDTH / d, d]."""

    d: int
    rows: int
    causal: bool

    @property
    def flops(self) -> int:
        """Floating-point operations of the five products; half of them if causal."""
        return 10 * TOKENS * WIDTH * self.rows // (2 if self.causal else 1)

    @property
    def row(self) -> dict[str, Any]:
        """What the result rows say of it."""
        heads = TOKENS // self.rows * (WIDTH // self.d)
        return {"dtype": "bf16", "d": self.d, "rows": self.rows, "heads": heads,
                "causal": self.causal}  # fmt: skip


class Inputs:
    """Random operands, the gradient of the output, and the first head's exact gradients."""

    def __init__(self, case: Case) -> None:
        shape = (TOKENS // case.rows, case.rows, WIDTH // case.d, case.d)
        plain = [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(4)]
        *self.operands, self.gradient = (x.transpose(1, 2) for x in plain)
        first = [x[:1, :1].double().requires_grad_() for x in self.operands]
        with sdpa_kernel(SDPBackend.MATH):
            out = scaled_dot_product_attention(*first, is_causal=case.causal)
        self.exact = torch.autograd.grad(out, first, self.gradient[:1, :1].double())

    def error(self, found: Grads) -> float:
        """The largest relative Frobenius error of the first head's gradients; inf for NaN."""
        pairs = zip(found, self.exact, strict=True)
        errors = [((x[:1, :1].double() - e).norm() / e.norm()).item() for x, e in pairs]
        bad = any(bool(x.isnan().any()) for x in found)
        return math.inf if bad else max(errors)


Contender = tuple[str, Callable[[], Any], float]
"""Configuration, work, and the error of what it computes."""


def tawa(case: Case, data: Inputs, *, deterministic: bool) -> Contender:
    """The library's gradients."""
    q, k, v = data.operands
    out, lse = attention(q, k, v, causal=case.causal, return_lse=True)
    into = tuple(torch.full_like(x, math.nan) for x in data.operands)

    def work() -> Any:
        return attention_gradients(
            q, k, v, out, lse, data.gradient, into, causal=case.causal, deterministic=deterministic
        )

    work()
    return "deterministic" if deterministic else "", work, data.error(into)


def _differentiated(data: Inputs, forward: Callable[..., torch.Tensor]) -> Contender:
    """The gradients that PyTorch's autograd computes for a forward pass."""
    operands = [x.detach().requires_grad_() for x in data.operands]
    out = forward(*operands)

    def work() -> Any:
        return torch.autograd.grad(out, operands, data.gradient, retain_graph=True)

    return "", work, data.error(work())


def cudnn(case: Case, data: Inputs) -> Contender:
    """cuDNN through PyTorch."""

    def forward(*operands: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return scaled_dot_product_attention(*operands, is_causal=case.causal)

    return _differentiated(data, forward)


def fa3(case: Case, data: Inputs) -> Contender | None:
    """FlashAttention-3, if a package with its backward pass is here."""
    try:
        from flash_attn_interface import flash_attn_func
    except ImportError:
        return None

    def forward(*operands: torch.Tensor) -> torch.Tensor:
        found = flash_attn_func(*(x.transpose(1, 2) for x in operands), causal=case.causal)
        return (found[0] if isinstance(found, tuple) else found).transpose(1, 2)

    return _differentiated(data, forward)


def contenders(case: Case, data: Inputs) -> dict[str, Contender | Exception | None]:
    """Each contender that is here, or why it does not run."""
    makers: dict[str, Callable[[], Contender | None]] = {
        "tawa": lambda: tawa(case, data, deterministic=False),
        "tawa-deterministic": lambda: tawa(case, data, deterministic=True),
        "cudnn": lambda: cudnn(case, data),
        "fa3": lambda: fa3(case, data),
    }
    found: dict[str, Contender | Exception | None] = {}
    for name, make in makers.items():
        try:
            found[name] = make()
        except Exception as error:
            found[name] = error
    return found


def compare(run: Run, case: Case, options: Any) -> dict[str, float]:
    """Time a case's contenders whose results are right; write rows; give times the best peer."""
    works: dict[str, Contender] = {}
    for name, found in contenders(case, data := Inputs(case)).items():
        if isinstance(found, Exception):
            run.add(case.row, name, None, error_text=f"{type(found).__name__}: {found}"[:200])
        elif found is not None and found[2] < MAX_ERROR:
            works[name] = found
        elif found is not None:
            run.add(case.row, name, None, config=found[0], error_text=f"wrong: {found[2]}")
            print(f"{name}: wrong result, not timed: {found[2]}", flush=True)
    del data
    with run.sampler.sampling():
        times = interleaved(
            {name: work for name, (_, work, _) in works.items()},
            rounds=2, soak=options.soak, window=options.window, on_turn=run.sampler.turn,
        )  # fmt: skip
    for name, timing in times.items():
        config, _, error = works[name]
        run.add(
            case.row, name, timing, config=config, flops=case.flops,
            error={"relative_frobenius": error, "reference": "float64, the first head"},
            **run.sampler.readings(name),
        )  # fmt: skip
    best = min((times[n].median for n in ("cudnn", "fa3") if n in times), default=math.nan)
    ratios = {n: best / t.median for n, t in times.items()}
    rates = {n: round(case.flops / t.median / 1e9) for n, t in times.items()}
    mask = "causal" if case.causal else "full"
    shown = {n: round(r, 3) for n, r in ratios.items() if n.startswith("tawa")}
    print(f"d {case.d:3} rows {case.rows:5} {mask:6} {rates} times the best peer: {shown}",
          flush=True)  # fmt: skip
    return ratios


def main() -> None:
    """Measure every case and write its rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--lengths", default="2048,8192")
    parser.add_argument("--dims", default="64,128,256")
    parser.add_argument("--soak", type=float, default=0.3)
    parser.add_argument("--window", type=float, default=0.12)
    options = parser.parse_args()
    torch.manual_seed(0)
    run = Run("attention-backward", options.rows)
    cases = [
        Case(d, rows, causal)
        for d in map(int, options.dims.split(","))
        for rows in map(int, options.lengths.split(","))
        for causal in (False, True)
    ]
    found = [compare(run, case, options) for case in cases]
    for name in ("tawa", "tawa-deterministic"):
        ratios = [r[name] for r in found if r.get(name, math.nan) == r.get(name, math.nan)]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"{name}, {len(ratios)} shapes: {mean:.3f}, least {min(ratios):.3f}")


if __name__ == "__main__":
    main()

"""What attention's own table leaves out: head dimensions, grouped heads, masks, short queries.

    python benchmarks/attention_options.py [--rows FOLDER] [--only window,grouped] [--soak 0.3]

bf16, one table of microseconds. Peers are FlashAttention-3 (with as many splits along the keys as
it chooses, where its tiles would not fill the device), cuDNN through PyTorch, and PyTorch's
flex_attention, compiled, where scores or masks are given as functions. Each result is compared with
float64 before it is timed. Contenders are CUDA graphs, so that no host is waited for where a call
takes microseconds, and take turns, as in `attention.py`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from prediction import recorded
from rows import Run

from tawa.kernels.attention import attention
from tawa.kernels.attention_kernel import alibi, attention_forward
from tawa.machine.chips import H100
from tawa.runtime.timing import interleaved

MAX_ERROR = 6e-3
MULTIPROCESSORS = H100.multiprocessors


@dataclass(frozen=True)
class Case:
    """One attention. `left` is how far a row looks back, `cap` a soft cap, None for neither."""

    group: str
    queries: int = 4096
    keys: int = 4096
    heads: int = 16
    kv_heads: int = 16
    batch: int = 4
    d: int = 128
    dv: int = 128
    causal: bool = False
    left: int | None = None
    cap: float | None = None
    slopes: bool = False
    lse: bool = False

    @property
    def flops(self) -> int:
        """Floating-point operations of both products, of the scores that count."""
        last = np.arange(self.queries) + (self.keys - self.queries if self.causal else self.keys)
        last = np.minimum(last, self.keys - 1)
        first = np.zeros_like(last) if self.left is None else np.maximum(last - self.left, 0)
        pairs = int((last - first + 1).clip(0).sum())
        return 2 * (self.d + self.dv) * pairs * self.heads * self.batch

    @property
    def row(self) -> dict[str, Any]:
        """What the result rows say of it."""
        return {"dtype": "bf16", **asdict(self)}

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of q, k, v and the output: [batch, rows, heads, D]."""
        q, k = (self.batch, self.queries, self.heads), (self.batch, self.keys, self.kv_heads)
        return [(*q, self.d), (*k, self.d), (*k, self.dv), (*q, self.dv)]

    @property
    def plain(self) -> bool:
        """Whether scores are neither modified nor masked by a window."""
        return self.left is None and self.cap is None and not self.slopes


def square(group: str, rows: int, **more: Any) -> Case:
    """A case of as many queries as keys."""
    return Case(group, rows, rows, **more)


def short(queries: int, keys: int = 8192, **more: Any) -> Case:
    """A case of few queries on many keys."""
    return Case("short queries", queries, keys, **more)


def cases() -> list[Case]:
    """All cases, in the order of the table."""
    both = (False, True)
    found = [square("head dimension", 4096, d=96, dv=96, causal=c) for c in both]
    found += [square("head dimension", 4096, d=192, dv=192, heads=8, kv_heads=8, causal=c)
              for c in both]  # fmt: skip
    found += [square("head dimension", 4096, d=192, heads=8, kv_heads=8, causal=c) for c in both]
    found += [square("grouped heads", 4096, heads=32, kv_heads=n, batch=2, causal=c)
              for n in (8, 1) for c in both]  # fmt: skip
    found += [square("window", n, batch=32768 // n // 2, causal=True, left=1024)
              for n in (4096, 16384)]  # fmt: skip
    found += [square("soft cap", 4096, cap=30.0, causal=c) for c in both]
    found += [square("ALiBi", 4096, slopes=True, causal=c) for c in both]
    for n in (1, 16, 128, 1000):
        found += [short(n, batch=1), short(n, heads=32, kv_heads=8)]
    found += [short(1, 65536, heads=32, kv_heads=8, batch=1)]
    found += [square("odd length", n, batch=1 if n > 5000 else 8, causal=c)
              for n in (1000, 4095, 16385) for c in both]  # fmt: skip
    for rows, heads in ((512, 8), (1024, 4), (4096, 2), (2048, 8)):
        found += [square("few heads", rows, batch=1, heads=heads, kv_heads=heads, causal=c)
                  for c in both]  # fmt: skip
    return [*found, square("log-sum-exp", 4096, lse=True)]


Contender = tuple[str, Callable[[], Any], float]
"""Configuration, work, and the error of what it computes."""


class Inputs:
    """Random operands of a case, an output, and the exact result of the last head."""

    def __init__(self, case: Case) -> None:
        import torch

        random = partial(torch.randn, device="cuda", dtype=torch.bfloat16)
        self.q, self.k, self.v = (random(shape) for shape in case.shapes[:3])
        self.turned = [x.transpose(1, 2) for x in (self.q, self.k, self.v)]
        self.out = torch.empty(case.shapes[3], device="cuda", dtype=torch.bfloat16)
        self.slopes = 2.0 ** -torch.arange(1, case.heads + 1, device="cuda", dtype=torch.float32)
        q, k, v = (x[-1, -1].double() for x in self.turned)
        scores = q @ k.T * case.d**-0.5
        if case.cap is not None:
            scores = case.cap * torch.tanh(scores / case.cap)
        rows = torch.arange(case.queries, device="cuda")[:, None] + case.keys - case.queries
        columns = torch.arange(case.keys, device="cuda")
        if case.slopes:
            scores -= self.slopes[-1].double() * (rows - columns).abs()
        if case.causal:
            scores.masked_fill_(columns > rows, -torch.inf)
        if case.left is not None:
            scores.masked_fill_(columns < rows - case.left, -torch.inf)
        self.exact = torch.softmax(scores, -1) @ v

    def error(self, last_head: Any) -> float:
        """Relative Frobenius error of the last head."""
        error = ((last_head.double() - self.exact).norm() / self.exact.norm()).item()
        return error if error == error else math.inf


def options_of(case: Case, slopes: Any) -> dict[str, Any]:
    """The arguments of `tawa.kernels.attention.attention`."""
    found: dict[str, Any] = {"causal": case.causal, "softcap": case.cap, "return_lse": case.lse}
    if case.left is not None:
        found["window"] = (case.left, None)
    if case.slopes:
        found |= {"score_mod": alibi, "captured": (slopes, case.keys - case.queries)}
    return found


def tawa(case: Case, data: Inputs) -> Contender:
    """The library's attention."""
    out = data.out.transpose(1, 2)

    def work() -> Any:
        return attention(*data.turned, out, **options_of(case, data.slopes))

    out.fill_(math.nan)
    work()
    return "", work, math.inf if bool(out.isnan().any()) else data.error(out[-1, -1])


def cudnn(case: Case, data: Inputs) -> Contender | None:
    """cuDNN through PyTorch, whose causal masks are aligned at the first key."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    if not case.plain or (case.causal and case.queries != case.keys):
        return None
    options = {"is_causal": case.causal, "enable_gqa": case.heads != case.kv_heads}

    def work() -> Any:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return scaled_dot_product_attention(*data.turned, **options)

    return "", work, data.error(work()[-1, -1])


def fa3(case: Case, data: Inputs, splits: int = 1) -> Contender | None:
    """FlashAttention-3; the package has no windows and no ALiBi."""
    from fa3_fwd_interface import flash_attn_func

    tiles = case.batch * case.heads * -(-case.queries // 128)
    if case.left is not None or case.slopes or (splits == 0 and tiles >= MULTIPROCESSORS):
        return None
    options = {"causal": case.causal, "softcap": case.cap or 0.0, "num_splits": splits}

    def work() -> Any:
        return flash_attn_func(data.q, data.k, data.v, **options)

    found = work()
    found = found[0] if isinstance(found, tuple) else found
    return "", work, data.error(found[-1, :, -1])


def flex(case: Case, data: Inputs) -> Contender | None:
    """PyTorch's flex_attention, compiled for the case's functions."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    if case.plain:
        return None
    torch._dynamo.reset()
    cap, slopes, left = case.cap, data.slopes, case.left

    def scores(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        if cap is not None:
            return cap * torch.tanh(score / cap)
        return score - slopes[h] * (q - k).abs() if case.slopes else score

    def visible(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (k <= q) & (k >= q - left) if left is not None else k <= q

    mask = None
    if case.causal:
        mask = create_block_mask(visible, None, None, case.queries, case.keys, device="cuda")
    compiled = torch.compile(flex_attention, dynamic=False)
    mod = scores if cap is not None or case.slopes else None

    def work() -> Any:
        return compiled(*data.turned, score_mod=mod, block_mask=mask)

    return "", work, data.error(work()[-1, -1])


CONTENDERS: dict[str, Callable[[Case, Inputs], Contender | None]] = {
    "tawa": tawa,
    "cudnn": cudnn,
    "fa3": fa3,
    "fa3 split": partial(fa3, splits=0),
    "flex": flex,
}


def captured(work: Callable[[], Any]) -> Callable[[], Any]:
    """The work's launches as a CUDA graph."""
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def compare(run: Run, case: Case, options: Any) -> None:
    """Time the contenders whose results are right; write rows; print microseconds."""
    data, works = Inputs(case), dict[str, Contender]()
    for name, make in CONTENDERS.items():
        try:
            found = make(case, data)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
            run.add(case.row, name, None, error_text=f"{type(error).__name__}: not timed")
            continue
        if found is not None and found[2] > MAX_ERROR:
            print(f"{name}: wrong result, not timed: {found[2]}", flush=True)
            run.add(case.row, name, None, error_text="wrong result: not timed")
        elif found is not None:
            works[name] = found
    with run.sampler.sampling():
        times = interleaved({n: captured(work) for n, (_, work, _) in works.items()}, rounds=2,
                            soak=options.soak, window=options.window,
                            on_turn=run.sampler.turn)  # fmt: skip
    for name, timing in times.items():
        config, _, error = works[name]
        run.add(case.row, name, timing, config=config, flops=case.flops,
                error={"relative_frobenius": error, "reference": "float64, the last head"},
                **run.sampler.readings(name))  # fmt: skip
    best = min((t.median for n, t in times.items() if n != "tawa"), default=math.nan)
    ratio = best / times["tawa"].median if "tawa" in times else math.nan
    told = {k: v for k, v in case.row.items() if v != getattr(Case(""), k, None)}
    shown = {name: round(timing.median * 1e3, 1) for name, timing in times.items()}
    rate = case.flops / times["tawa"].median / 1e9 if "tawa" in times else math.nan
    print(f"{ratio:.3f} {told} {shown} {rate:.0f} TFLOP/s", flush=True)


def compile_case(case: Case) -> tuple[Case, list[str]]:
    """Compile what a case launches into the cache, in a process that touches no device."""
    q, k, v, out = (np.empty(s, ml_dtypes.bfloat16).swapaxes(1, 2) for s in case.shapes)
    more = options_of(case, np.empty(case.heads, np.float32))
    compiled, _, _ = recorded(attention_forward, lambda: attention(q, k, v, out, **more))
    return case, compiled.findings


def main() -> None:
    """Measure every case and write its rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--only", default="", help="groups, by the beginnings of their names")
    parser.add_argument("--soak", type=float, default=0.3)
    parser.add_argument("--window", type=float, default=0.12)
    options = parser.parse_args()
    chosen = [c for c in cases() if c.group.startswith(tuple(options.only.split(",")))]
    with ProcessPoolExecutor() as pool:
        for case, findings in pool.map(compile_case, chosen):
            if findings:
                print(case, findings, flush=True)
    import torch

    torch.manual_seed(0)
    run = Run("attention-options", options.rows)
    for case in chosen:
        compare(run, case, options)


if __name__ == "__main__":
    main()

"""Operators of public packages: their kernels, launched as the packages launch them.

An operator is called once under a compiler, so that its tuned kernels choose; the launches of a
second call are kept and made again to be timed, without the package's own work on the host. The
packages (`fla-core`, `liger-kernel`, `einops`) are loaded where they are installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import same_source_case
import torch
from recorded_launches import recording
from same_source_case import Case, empty, random
from triton.runtime.autotuner import Autotuner

import tawa
from tawa.runtime.timing import Stopwatch

BF16, F32 = torch.bfloat16, torch.float32
Operator = Callable[[], torch.Tensor]


def operator(
    name: str, package: str, kind: str, sizes: dict[str, Any], op: Operator, exact: Any = None,
    tolerance: float = 2e-2,
) -> Case:  # fmt: skip
    """A case that makes an operator's launches again, as one compiler tuned them."""
    output = empty(1)

    def launch(compiler: Any, descriptor: Any, config: dict[str, Any]) -> Any:
        scope = tawa.enable(strict=True) if compiler == "tawa" else nullcontext()
        with scope:
            with choosing_anew():
                op()
            with recording(run=True) as launches:
                result = op()
            output.resize_(result.shape).copy_(result.detach())
            return partial(replay, [launch.bound() for launch in launches])

    return Case(name, kind, sizes, None, launch, [{}], output, exact, tolerance=tolerance,
                source=package, op=op)  # fmt: skip


@contextmanager
def choosing_anew() -> Iterator[None]:
    """Tuned kernels choose again in the block: one compiler's choice is not the other's.

    Neither is what a tuner has kept on disk.
    """
    tuner, seen = Autotuner, set[int]()
    own, kept = tuner.run, tuner.check_disk_cache

    def look(self: Any, key: Any, configs: Any, bench: Callable[[], None]) -> bool:
        bench()
        return False

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if id(self) not in seen:
            seen.add(id(self))
            self.cache.clear()
            self.__dict__["do_bench"] = _middle
        return own(self, *args, **kwargs)

    tuner.run, tuner.check_disk_cache = run, look
    try:
        yield
    finally:
        tuner.run, tuner.check_disk_cache = own, kept


def _middle(work: Callable[[], Any], quantiles: tuple[float, ...]) -> list[float]:
    """The median of a configuration's times, in milliseconds, as a tuner asks for it."""
    seconds = same_source_case.TUNING
    if not seconds:
        work()
        return [0.0] * len(quantiles)
    watch = Stopwatch()
    watch.times_for(work, seconds)
    times = sorted(watch.times_for(work, seconds))
    return [times[len(times) // 2]] * len(quantiles)


def replay(works: list[Callable[[], Any]]) -> None:
    """Make launches again."""
    for work in works:
        work()


def _heads(b: int, t: int, h: int, d: int) -> list[torch.Tensor]:
    q, k, v = (random(b, t, h, d, dtype=BF16) for _ in range(3))
    return [q * d**-0.5, torch.nn.functional.normalize(k.float(), dim=-1).to(BF16), v]


def _first(result: Any) -> torch.Tensor:
    return result[0] if isinstance(result, tuple) else result


def recurrent(path: str, name: str, gates: Callable[..., list[torch.Tensor]]) -> Any:
    """The cases of one of FLA's operators on queries, keys, values and gates."""

    def make(b: int, t: int, h: int, d: int) -> Case:
        from importlib import import_module

        function = getattr(import_module(f"fla.ops.{path}"), name)
        args = [*_heads(b, t, h, d), *gates(b, t, h, d)]
        sizes = {"batch": b, "rows": t, "heads": h, "d": d}
        return operator(name, "fla", "products", sizes, lambda: _first(function(*args)))

    make.__name__ = name
    return make


def _decay(*shape: int, dtype: torch.dtype = F32) -> torch.Tensor:
    return torch.nn.functional.logsigmoid(random(*shape, dtype=F32)).to(dtype) / 16


RECURRENCES = [
    recurrent("simple_gla", "chunk_simple_gla", lambda b, t, h, d: [_decay(b, t, h)]),
    recurrent("gla", "chunk_gla", lambda b, t, h, d: [_decay(b, t, h, d, dtype=BF16)]),
    recurrent("gla", "fused_recurrent_gla", lambda b, t, h, d: [_decay(b, t, h, d, dtype=BF16)]),
    recurrent("delta_rule", "chunk_delta_rule",
              lambda b, t, h, d: [random(b, t, h, dtype=BF16).sigmoid()]),
    recurrent("gated_delta_rule", "chunk_gated_delta_rule",
              lambda b, t, h, d: [_decay(b, t, h), random(b, t, h, dtype=BF16).sigmoid()]),
    recurrent("rwkv6", "chunk_rwkv6",
              lambda b, t, h, d: [_decay(b, t, h, d, dtype=BF16), random(h, d, dtype=BF16)]),
    recurrent("retention", "chunk_retention", lambda b, t, h, d: []),
]  # fmt: skip


def rows(module: str, name: str, arguments: Callable[[int, int], list[Any]]) -> Any:
    """The cases of one of Liger's forward functions on rows."""

    def make(m: int, n: int) -> Case:
        from importlib import import_module

        function = getattr(import_module(f"liger_kernel.ops.{module}"), name)
        args = arguments(m, n)
        # Some write over what they are given.
        return operator(name, "liger", "memory", {"rows": m, "n": n},
                        lambda: _last_tensor(function(*map(_copied, args))))  # fmt: skip

    make.__name__ = name
    return make


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _last_tensor(result: Any) -> torch.Tensor:
    """What a function computed: its first tensor, or, of gated units, the last."""
    found = [v for v in result if isinstance(v, torch.Tensor)] if isinstance(result, tuple) else []
    return found[-1] if len(found) == 3 else found[0] if found else result


def _bf16(*shape: int) -> torch.Tensor:
    return random(*shape, dtype=BF16)


NORMED = [
    rows("rms_norm", "rms_norm_forward",
         lambda m, n: [_bf16(m, n), _bf16(n), 1e-6, 0.0, "llama", None]),
    rows("layer_norm", "layer_norm_forward",
         lambda m, n: [_bf16(m, n), _bf16(n), _bf16(n), 1e-6]),
    rows("dyt", "liger_dyt_fwd", lambda m, n: [_bf16(m, n), _bf16(1), _bf16(n), _bf16(n)]),
    rows("geglu", "geglu_forward", lambda m, n: [_bf16(m, n), _bf16(m, n)]),
    rows("swiglu", "swiglu_forward", lambda m, n: [_bf16(m, n), _bf16(m, n)]),
    rows("softmax", "_softmax_forward", lambda m, n: [_bf16(m, n)]),
]  # fmt: skip
LOSSES = [
    rows("kl_div", "kldiv_forward_triton", lambda m, n: [
        torch.log_softmax(random(m, n, dtype=F32), -1),
        torch.softmax(random(m, n, dtype=F32), -1), False, "batchmean", 1e-10]),
    rows("tvd", "tv_distance_forward_triton", lambda m, n: [
        torch.softmax(random(m, n, dtype=F32), -1), torch.softmax(random(m, n, dtype=F32), -1),
        None, "batchmean", -100, False]),
    rows("jsd", "jsd_forward", lambda m, n: [
        torch.log_softmax(random(m, n, dtype=F32), -1),
        torch.log_softmax(random(m, n, dtype=F32), -1), None, 0.5, -100, False]),
    rows("cross_entropy", "cross_entropy_forward", lambda m, n: [
        _bf16(m, n), torch.randint(0, n, (m,), device=empty(1).device), None, -100, 0.0, 0.0,
        "mean", None, False]),
]  # fmt: skip


def rope_forward(b: int, heads: int, t: int, d: int) -> Case:
    """Liger's rotary embedding of queries and keys, in place."""
    from liger_kernel.ops.rope import rope_forward as function

    q, k = _bf16(b, heads, t, d), _bf16(b, max(1, heads // 4), t, d)
    angle = random(1, t, d, dtype=F32)
    cos, sin = angle.cos().to(BF16), angle.sin().to(BF16)
    sizes = {"batch": b, "heads": heads, "rows": t, "d": d}
    return operator("rope_forward", "liger", "memory", sizes,
                    lambda: function(q.clone(), k.clone(), cos, sin)[0])  # fmt: skip


def group_norm_forward(batch: int, channels: int, places: int) -> Case:
    """Liger's norm of 32 groups of channels."""
    from liger_kernel.ops.group_norm import group_norm_forward as function

    x, w, b = _bf16(batch, channels, places), _bf16(channels), _bf16(channels)
    sizes = {"batch": batch, "channels": channels, "places": places}

    def exact() -> torch.Tensor:
        wide = [t.double() for t in (x, w, b)]
        return torch.nn.functional.group_norm(wide[0], 32, *wide[1:], 1e-6)

    # The kernel adds up in bf16: both compilers are compared with exact numbers, not each other.
    return operator("group_norm_forward", "liger", "memory", sizes,
                    lambda: _first(function(x, channels, 32, w, b, 1e-6)).view(x.shape),
                    exact, tolerance=5e-2)  # fmt: skip


CASES: list[Callable[[], Case]] = [
    *(partial(make, *size) for make in RECURRENCES
      for size in ((4, 2048, 8, 128), (1, 16384, 16, 64), (8, 4096, 16, 128))),
    *(partial(make, *size) for make in NORMED
      for size in ((16384, 1024), (8192, 4096), (4096, 14336))),
    *(partial(make, *size) for make in LOSSES
      for size in ((4096, 32000), (2048, 50257), (1024, 128256))),
    *(partial(group_norm_forward, *size) for size in ((16, 512, 4096), (64, 256, 1024),
                                                      (4, 1024, 16384))),
    *(partial(rope_forward, *size) for size in ((4, 32, 2048, 128), (1, 16, 16384, 64),
                                                (8, 8, 4096, 128))),
]  # fmt: skip

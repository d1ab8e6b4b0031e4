"""Attention on the device against float64: lengths, masks, types, options; PyTorch's operator.

Outputs start as NaN inside a larger buffer, of which nothing else may change. Every launch is
repeated: a race shows as a result that differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import tawa
import tawa.language as tl
from tawa.kernels.attention import attention
from tawa.kernels.attention_kernel import alibi, masked

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]

ERRORS = {"float16": 1e-3, "bfloat16": 6e-3, "float8_e4m3fn": 3e-2}
"""Relative Frobenius error of the output: its rounding, and that of the weights."""

LSE_ERROR, FP8_LSE_ERROR = 2e-4, 5e-3
"""Of the log-sum-exp; Hopper adds up fp8 products with 14 bits or so, others in fp32."""

TANH_ERROR = 2.0**-11
"""Of the hardware's tanh, relative: a capped score is as far off as this times the cap at most, and
so is the log-sum-exp of a row that sees few keys."""

AROUND = 12.5
ROWS = 2048
"""Query rows of the reference at a time."""


@pytest.fixture
def torch() -> Any:
    module = pytest.importorskip("torch")
    module.manual_seed(0)
    return module


@dataclass(frozen=True)
class Case:
    """One attention; `modify` is the score modification in PyTorch, if the options have one."""

    queries: int = 1000
    keys: int = 1000
    d: int = 128
    heads: int = 18
    kv_heads: int | None = None
    batch: int = 1
    dv: int | None = None
    dtype: str = "float16"
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    modify: Callable[..., Any] | None = None


def inputs(torch: Any, case: Case) -> tuple[Any, Any, Any]:
    """Standard normal q, k and v, as views of [batch, rows, heads, D] tensors."""
    dv = case.dv or case.d
    sizes = (
        (case.queries, case.heads, case.d),
        (case.keys, case.kv_heads or case.heads, case.d),
        (case.keys, case.kv_heads or case.heads, dv),
    )
    q, k, v = (
        torch.randn(case.batch, *size, device="cuda").to(getattr(torch, case.dtype)).transpose(1, 2)
        for size in sizes
    )
    return q, k, v


def exact(
    torch: Any, q: Any, k: Any, v: Any, modify: Any = None, captured: Any = (), **options: Any
) -> tuple[Any, Any]:
    """Output and log-sum-exp in float64, some rows of one head at a time."""
    (batch, heads, queries, d), keys = q.shape, k.shape[2]
    group = heads // k.shape[1]
    out = torch.zeros(batch, heads, queries, v.shape[-1], dtype=torch.float64, device="cuda")
    lse = torch.full((batch, heads, queries), -torch.inf, dtype=torch.float64, device="cuda")
    left, right = options.get("window") or (None, None)
    right = 0 if options.get("causal") else right
    offset = 0 if options.get("alignment") == "top-left" else keys - queries
    columns = torch.arange(keys, device="cuda")
    for b in range(batch):
        for h in range(heads):
            for start in range(0, queries, ROWS):
                rows = torch.arange(start, min(start + ROWS, queries), device="cuda")[:, None]
                scores = q[b, h, start : start + ROWS].double() @ k[b, h // group].double().T
                scores *= options.get("scale") or d**-0.5
                if cap := options.get("softcap"):
                    scores = cap * torch.tanh(scores / cap)
                if modify is not None:
                    scores = modify(torch, scores, b, h, rows, columns, *captured)
                if right is not None:
                    scores.masked_fill_(columns > rows + offset + right, -torch.inf)
                if left is not None:
                    scores.masked_fill_(columns < rows + offset - left, -torch.inf)
                lse[b, h, start : start + ROWS] = torch.logsumexp(scores, -1)
                weights = torch.softmax(scores, -1).nan_to_num(0)
                out[b, h, start : start + ROWS] = weights @ v[b, h // group].double()
    return out, lse


class Result:
    """Output and log-sum-exp, all NaN; the output inside a larger buffer."""

    def __init__(self, torch: Any, q: Any, v: Any) -> None:
        batch, heads, queries, _ = q.shape
        dtype = torch.bfloat16 if q.element_size() == 1 else q.dtype
        shape = (batch, queries + 4, heads + 1, v.shape[-1])
        self.torch = torch
        self.buffer = torch.full(shape, AROUND, device="cuda", dtype=dtype)
        self.out = self.buffer[:, 2 : queries + 2, :heads].transpose(1, 2)
        self.lse = torch.empty(batch, heads, queries, device="cuda")
        self.poison()

    def poison(self) -> None:
        self.out.fill_(float("nan"))
        self.lse.fill_(float("nan"))

    def check(self, expected: tuple[Any, Any], limit: float, lse_limit: float = LSE_ERROR) -> None:
        """Compare with float64, and look at what lies around the output."""
        torch, (out, lse) = self.torch, expected
        error, norm = float((self.out.double() - out).norm()), float(out.norm())
        assert error <= limit * norm, error / (norm or 1)
        empty = lse == -torch.inf
        assert torch.equal(self.lse == -torch.inf, empty)
        assert bool((self.out[empty] == 0).all())
        distance = (self.lse.double() - lse)[~empty].abs()
        assert distance.numel() == 0 or float(distance.max()) < lse_limit
        self.out.fill_(AROUND)
        assert bool((self.buffer == AROUND).all()), "something was written outside of the output"


@tawa.jit
def distance(score: Any, batch: Any, head: Any, q_idx: Any, k_idx: Any):
    return score - tl.abs(q_idx - k_idx) * 0.001 * (head + 1)


@tawa.jit
def only_even(score: Any, batch: Any, head: Any, q_idx: Any, k_idx: Any):
    return tl.where(k_idx % 2 == 0, score, -float("inf"))


def torch_distance(torch: Any, score: Any, b: int, h: int, q: Any, k: Any) -> Any:
    return score - (q - k).abs() * 0.001 * (h + 1)


def torch_only_even(torch: Any, score: Any, b: int, h: int, q: Any, k: Any) -> Any:
    return score.masked_fill(k % 2 == 1, -torch.inf)


BOTTOM = {"causal": True}
TOP = {"causal": True, "alignment": "top-left"}
CASES = {
    "1": Case(1, 1),
    "127": Case(127, 127, batch=2),
    "1 of 16385": Case(1, 16385, heads=8, kv_heads=2, options=BOTTOM),
    "16385": Case(16385, 16385),
    "causal 16385": Case(16385, 16385, options=BOTTOM),
    "causal 1024": Case(1024, 1024, batch=2, heads=4, options=BOTTOM),
    "one query a head": Case(1, 8192, heads=32, kv_heads=8, batch=2, dtype="bfloat16"),
    "one query of a head of keys": Case(1, 5000, heads=32, kv_heads=1, options=BOTTOM),
    "packed heads, causal": Case(7, 3000, heads=12, kv_heads=3, batch=2, d=64, options=BOTTOM),
    "packed heads, window": Case(
        40, 4096, heads=8, kv_heads=2, d=256, options={"window": (500, 100)}
    ),
    "packed heads, d 256": Case(1, 8192, heads=8, kv_heads=2, batch=2, d=256, dtype="bfloat16"),
    "packed heads, d 192": Case(20, 4096, heads=16, kv_heads=4, d=192, options=BOTTOM),
    "packed heads, large tiles": Case(32, 5000, heads=8, kv_heads=2, options=BOTTOM),
    "packed heads, tiles enough": Case(1, 1000, heads=32, kv_heads=8, batch=40),
    "packed heads, fp8": Case(16, 4096, heads=8, kv_heads=2, dtype="float8_e4m3fn"),
    "splits": Case(300, 8192, heads=4, dtype="bfloat16"),
    "splits, causal": Case(2000, 2000, heads=2, options=BOTTOM),
    "splits, no keys for some": Case(1000, 300, heads=1, options=BOTTOM),
    "splits, window": Case(3000, 3000, heads=1, options={"window": (700, 700)}),
    "splits, values of other width": Case(100, 2000, heads=2, dv=72),
    "splits, soft cap": Case(100, 2000, heads=2, options={"softcap": 3.0}),
    "splits, score mod": Case(
        100, 2000, heads=2, options={"score_mod": distance}, modify=torch_distance
    ),
    "causal, more keys": Case(513, 1000, options=BOTTOM),
    "causal, more queries": Case(1000, 300, options=BOTTOM),
    "causal, top left, more keys": Case(513, 1000, options=TOP),
    "causal, top left, more queries": Case(1000, 300, options=TOP),
    "no keys": Case(100, 0),
    "d 64": Case(d=64),
    "d 64, causal": Case(2000, 2000, d=64, options=BOTTOM),
    "d 72": Case(d=72),
    "d 96": Case(d=96),
    "d 96, causal, bf16": Case(d=96, dtype="bfloat16", options=BOTTOM),
    "d 192, dv 128": Case(d=192, dv=128, options=BOTTOM),
    "d 192, bf16": Case(d=192, dtype="bfloat16"),
    "d 256": Case(d=256),
    "d 256, causal, bf16": Case(d=256, dtype="bfloat16", options=BOTTOM),
    "bf16": Case(2000, 2000, dtype="bfloat16"),
    "bf16, causal, grouped": Case(
        2000, 2000, heads=6, kv_heads=2, batch=2, dtype="bfloat16", options=BOTTOM
    ),
    "fp8": Case(dtype="float8_e4m3fn"),
    "fp8, causal, grouped": Case(
        2000, 2000, heads=4, kv_heads=2, dtype="float8_e4m3fn", options=BOTTOM
    ),
    "fp8, d 64": Case(d=64, dtype="float8_e4m3fn"),
    "fp8, d 256": Case(d=256, dtype="float8_e4m3fn"),
    "window": Case(options={"window": (200, 100)}),
    "window, causal": Case(3000, 3000, options={"window": (256, 0)}),
    "window of one": Case(options={"window": (0, 0)}),
    "window, left": Case(options={"window": (100, None)}),
    "window, left, of rows past the keys": Case(
        1000, 256, options={"window": (20, None), "alignment": "top-left"}
    ),
    "window, d 64": Case(d=64, options={"window": (100, 30)}),
    "soft cap": Case(options={"softcap": 3.0}),
    "soft cap, causal": Case(options={"softcap": 3.0, "causal": True}),
    "scale": Case(options={"scale": 0.5}),
    "negative scale": Case(options={"scale": -0.1}),
    "score mod": Case(options={"score_mod": distance, "causal": True}, modify=torch_distance),
    "score mod that masks": Case(
        options={"score_mod": only_even, "window": (1, 0)}, modify=torch_only_even
    ),
}


def launched(torch: Any, case: Case, arrays: tuple[Any, Any, Any], **more: Any) -> Result:
    """The case's result, the same three times."""
    q, k, v = arrays
    result = Result(torch, q, v)
    first = None
    for _ in range(3):
        result.poison()
        attention(q, k, v, result.out, lse=result.lse, **case.options, **more)
        bits = (result.out.contiguous().view(torch.int16), result.lse.view(torch.int32))
        first = first or tuple(x.clone() for x in bits)
        assert all(torch.equal(x, y) for x, y in zip(first, bits, strict=True))
    return result


@pytest.mark.parametrize("name", CASES)
def test_against_float64(torch: Any, name: str) -> None:
    case = CASES[name]
    q, k, v = inputs(torch, case)
    described = {n: x for n, x in case.options.items() if n != "score_mod"}
    expected = exact(torch, q, k, v, case.modify, **described)
    lse_limit = FP8_LSE_ERROR if "float8" in case.dtype else LSE_ERROR
    lse_limit += TANH_ERROR * case.options.get("softcap", 0.0)
    launched(torch, case, (q, k, v)).check(expected, ERRORS[case.dtype], lse_limit)


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("slope", [4.0, -4.0])
def test_maxima_that_keep_growing(torch: Any, d: int, causal: bool, slope: float) -> None:
    case = Case(2000, 2000, d=d, options={"causal": causal})
    q, k, v = inputs(torch, case)
    q = q.abs()
    k = (k.abs() * torch.linspace(0, slope, 2000, device="cuda")[None, None, :, None]).half()
    expected = exact(torch, q, k, v, causal=causal)
    launched(torch, case, (q, k, v)).check(expected, ERRORS["float16"])


def test_alibi(torch: Any) -> None:
    case = Case(700, 1000, heads=4, options={"causal": True})
    q, k, v = inputs(torch, case)
    slopes = 2.0 ** -torch.arange(1, 5, device="cuda").float()

    def modify(torch: Any, score: Any, b: int, h: int, rows: Any, columns: Any) -> Any:
        return score - slopes[h].double() * (rows + 300 - columns).abs()

    expected = exact(torch, q, k, v, modify, causal=True)
    launched(torch, case, (q, k, v), score_mod=alibi, captured=(slopes, 300)).check(expected, 1e-3)


@pytest.mark.parametrize("kind", ["bool", "float16", "float32"])
def test_masks(torch: Any, kind: str) -> None:
    case = Case(513, 1000, batch=2, d=64)
    q, k, v = inputs(torch, case)
    mask = torch.randn(2, 1, 513, 1000, device="cuda")
    mask = mask > 0 if kind == "bool" else mask.to(getattr(torch, kind))
    mask[:, :, 7] = False if kind == "bool" else -torch.inf

    def modify(torch: Any, score: Any, b: int, h: int, rows: Any, columns: Any) -> Any:
        part = mask[b, 0][rows[:, 0]]
        return score.masked_fill(~part, -torch.inf) if kind == "bool" else score + part.double()

    captured = (mask, mask.stride(0), 0, mask.stride(2), 1)
    result = launched(torch, case, (q, k, v), score_mod=masked, captured=captured)
    result.check(exact(torch, q, k, v, modify), 1e-3)


def test_factors_of_fp8(torch: Any) -> None:
    case = Case(500, 700, heads=4, kv_heads=2, batch=2, dtype="float8_e4m3fn")
    q, k, v = inputs(torch, case)
    factors = [torch.rand(2, 2, device="cuda") + 0.5 for _ in range(3)]
    wide = [f[:, :, None, None].double() for f in factors]
    scaled = (q.double() * wide[0].repeat_interleave(2, 1), k.double() * wide[1])
    expected = exact(torch, *scaled, v.double() * wide[2])
    launched(torch, case, (q, k, v), descale=tuple(factors)).check(
        expected, ERRORS[case.dtype], FP8_LSE_ERROR
    )


def flash_attention_3() -> Any:
    """FlashAttention-3's interface, of the package fa3-fwd."""
    reason = "FlashAttention-3 (the package fa3-fwd) can't be imported"
    return pytest.importorskip("fa3_fwd_interface", reason=reason, exc_type=ImportError)


@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("growing", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_error_is_within_that_of_flash_attention_3(
    torch: Any, d: int, causal: bool, growing: bool, dtype: str
) -> None:
    flash = flash_attention_3()
    case = Case(2048, 2048, d=d, heads=4, dtype=dtype, options={"causal": causal})
    q, k, v = inputs(torch, case)
    if growing:
        q, k = q.float().abs(), k.float().abs() * torch.linspace(0, 2, 2048, device="cuda")[:, None]
        q, k = (x.to(v.dtype) for x in (q, k))
    expected, _ = exact(torch, q, k, v, causal=causal)
    ours = attention(q, k, v, causal=causal).double()
    theirs = flash.flash_attn_func(*(x.transpose(1, 2).contiguous() for x in (q, k, v)),
                                   causal=causal)  # fmt: skip
    theirs = theirs[0] if isinstance(theirs, tuple) else theirs
    theirs = theirs.transpose(1, 2).double()
    # The largest error of a few hundred thousand is a matter of luck within a unit in the last place.
    for norm, factor in ((torch.norm, 1.1), (lambda x: x.abs().max(), 2.0)):
        assert float(norm(ours - expected)) <= factor * float(norm(theirs - expected))


# --- PyTorch's operator ---------------------------------------------------------------------------


def close(found: Any, expected: Any, limit: float = 1e-3) -> None:
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    found, expected = found.double(), expected.double()
    assert float((found - expected).norm()) <= limit * float(expected.norm())


@pytest.fixture
def ours(torch: Any) -> Any:
    from tawa.kernels.torch_attention import scaled_dot_product_attention

    return scaled_dot_product_attention


def theirs(torch: Any, q: Any, k: Any, v: Any, *args: Any, **options: Any) -> Any:
    """PyTorch's own, in float32."""
    function = torch.nn.functional.scaled_dot_product_attention
    return function(q.float(), k.float(), v.float(), *args, **options).to(q.dtype)


def grouped(torch: Any) -> dict[str, Any]:
    return {"enable_gqa": True}


def biased(torch: Any) -> dict[str, Any]:
    return {"attn_mask": torch.randn(2, 4, 1, 700, device="cuda").half(), "scale": 0.2}


def hidden(torch: Any) -> dict[str, Any]:
    return {"attn_mask": torch.randn(500, 700, device="cuda") > 0}


def causal(torch: Any) -> dict[str, Any]:
    return {"is_causal": True}


def plain(torch: Any) -> dict[str, Any]:
    return {}


@pytest.mark.parametrize("arguments", [plain, causal, hidden, biased, grouped])
def test_operator_s_arguments(
    torch: Any, ours: Any, arguments: Callable[[Any], dict[str, Any]]
) -> None:
    q, k, v = inputs(torch, Case(500, 700, batch=2, heads=4))
    given = arguments(torch)
    if "enable_gqa" in given:
        k, v = k[:, :2], v[:, :2]
    wide = {n: x.float() if n == "attn_mask" and x.is_floating_point() else x
            for n, x in given.items()}  # fmt: skip
    limit = 2e-3 if arguments is biased else 1e-3
    close(ours(q, k, v, **given), theirs(torch, q, k, v, **wide), limit)


def test_operator_reads_views_in_place(torch: Any, ours: Any) -> None:
    packed = torch.randn(2, 512, 3, 4, 128, device="cuda").half()
    q, k, v = (x.transpose(1, 2) for x in packed.unbind(2))
    ours(q, k, v)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    found = ours(q, k, v)
    torch.cuda.synchronize()
    own = found.numel() * found.element_size()
    assert torch.cuda.max_memory_allocated() - before <= own + 512
    close(found, theirs(torch, q, k, v))
    assert found.transpose(1, 2).is_contiguous()


def test_operator_copies_what_can_t_be_read_in_place(torch: Any, ours: Any) -> None:
    q, _, v = inputs(torch, Case(200, 300, batch=2, heads=4))
    odd = torch.randn(2, 4, 300, 131, device="cuda").half()[..., 1:129]
    expanded = v[:1].expand(2, -1, -1, -1)
    close(ours(q, odd, expanded), theirs(torch, q, odd, expanded))


def test_operator_in_a_compiled_model(torch: Any, ours: Any) -> None:
    def model(q: Any, k: Any, v: Any) -> Any:
        return ours(q * 2, k, v, is_causal=True) + 1

    q, k, v = inputs(torch, Case(500, 500, batch=2))
    found = torch.compile(model, fullgraph=True)(q, k, v)
    close(found, model(q, k, v))


def test_operator_in_a_graph(torch: Any, ours: Any) -> None:
    q, k, v = inputs(torch, Case(500, 500, batch=2))
    expected = ours(q, k, v, is_causal=True)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = ours(q, k, v, is_causal=True)
    found.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(found, expected)
    q.copy_(q.flip(2))
    graph.replay()
    torch.cuda.synchronize()
    close(found, theirs(torch, q, k, v, is_causal=True))


def test_operator_on_a_side_stream(torch: Any, ours: Any) -> None:
    q, k, v = inputs(torch, Case(500, 500))
    expected = ours(q, k, v)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        found = ours(q, k, v)
    side.synchronize()
    assert torch.equal(found, expected)


def test_operator_passes_torch_s_own_checks(torch: Any, ours: Any) -> None:
    q, k, v = inputs(torch, Case(100, 130))
    found = torch.library.opcheck(torch.ops.tawa.attention.default, (q, k, v), {"is_causal": True})
    assert set(found.values()) == {"SUCCESS"}


def test_tensors_of_two_devices_are_refused(torch: Any) -> None:
    q = torch.randn(1, 2, 64, 64, device="cuda").half()
    with pytest.raises(tawa.TawaError, match="another device"):
        attention(q, q.cpu(), q)

"""Programs to differentiate: each with its shapes, and the same in PyTorch.

The definition `f` takes a tree of f64 arrays and gives a tensor; its numbers are summed with weights
(`sum_all (f p * cos)`), so that every one of them matters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """`text` defines `f`; `torch` does the same with torch (t), its functions (F) and arrays (p)."""

    text: str
    shapes: tuple[Shape, ...]
    torch: Callable[[Any, Any, Any], Any]
    low: float = -1.0


def pointwise(body: str, torch: Callable[[Any, Any, Any], Any], low: float = -1.0) -> Case:
    return Case(f"def f (x, y) = {body}", ((3, 4), (4,)), lambda t, F, p: torch(t, *p), low)


CASES: dict[str, Case] = {
    "sums": pointwise("x + y - x * y * 2.0", lambda t, x, y: x + y - 2 * x * y),
    "quotients": pointwise("x / y", lambda t, x, y: x / y, 0.5),
    "powers": pointwise("x ** y + x ** 3.0", lambda t, x, y: x**y + x**3, 0.5),
    "rests": pointwise("x % y", lambda t, x, y: t.remainder(x, y), 0.3),
    "extremes": pointwise("maximum x y * minimum x y", lambda t, x, y: t.maximum(x, y) * t.minimum(x, y)),
    "conditions": pointwise("where (x > y) (x * x) (sin y)", lambda t, x, y: t.where(x > y, x * x, y.sin())),
    "exponentials": pointwise("exp x * log (abs y + 1.0)", lambda t, x, y: x.exp() * (y.abs() + 1).log()),
    "roots": pointwise("sqrt x + rsqrt y", lambda t, x, y: x.sqrt() + y.rsqrt(), 0.5),
    "waves": pointwise("sin x * cos y", lambda t, x, y: x.sin() * y.cos()),
    "sigmoids": pointwise("tanh x + sigmoid (x * y) + softplus y",
                          lambda t, x, y: x.tanh() + (x * y).sigmoid() + t.nn.functional.softplus(y)),
    "activations": pointwise("relu x + gelu (x + y) + silu y + erf x",
                             lambda t, x, y: x.relu() + t.nn.functional.gelu(x + y)
                             + t.nn.functional.silu(y) + x.erf()),
    "negatives": pointwise("negate x .- abs x + floor y * x",
                           lambda t, x, y: -x - x.abs() + y.floor() * x),
    "reductions": pointwise("sum{axis = 0} x + mean{axis = 0} (x * x) + y",
                            lambda t, x, y: x.sum(0) + (x * x).mean(0) + y),
    "products of numbers": pointwise("prod{axis = 0} x * y", lambda t, x, y: x.prod(0) * y),
    "largest": pointwise("max{axis = 1} (x * y)", lambda t, x, y: (x * y).amax(1)),
    "smallest": pointwise("min{axis = 0} (x * y)", lambda t, x, y: (x * y).amin(0)),
    "logarithms of sums": pointwise("logsumexp{axis = 0} (x * y)", lambda t, x, y: (x * y).logsumexp(0)),
    "running sums": pointwise("cumsum{axis = 0} x * y", lambda t, x, y: x.cumsum(0) * y),
    "sorted": pointwise("sort{axis = 0} x * y", lambda t, x, y: x.sort(0).values * y),
    "top": pointwise("(top{2} (x * y)).0", lambda t, x, y: (x * y).topk(2).values),
    "softmax": pointwise("softmax x * log_softmax{axis = 0} x + y",
                         lambda t, x, y: x.softmax(-1) * x.log_softmax(0) + y),
    "norms": Case("def f (g, o, x) = layer_norm g o x * rms_norm g x", ((4,), (4,), (3, 4)),
                  lambda t, F, p: F.layer_norm(p[2], (4,), p[0], p[1])
                  * F.rms_norm(p[2], (4,), p[0], 1e-5)),
    "batch norm": Case("def f (g, o, m, v, x) = batch_norm g o m (v * v + 1.0) x",
                       ((2,), (2,), (2,), (2,), (3, 2, 4)),
                       lambda t, F, p: (p[4] - p[2][:, None]) / (p[3][:, None] ** 2 + 1 + 1e-5).sqrt()
                       * p[0][:, None] + p[1][:, None]),
    "an MLP": Case("def f ((w, b), (v, c), x) = linear v c (relu (linear w b x))",
                   ((3, 5), (5,), (5, 2), (2,), (4, 3)),
                   lambda t, F, p: (p[4] @ p[0] + p[1]).relu() @ p[2] + p[3]),
    "stacks of matrices": Case("def f (x, y, z) = matmul (matmul x y) z", ((2, 1, 3, 4), (3, 4, 2), (2, 3)),
                               lambda t, F, p: p[0] @ p[1] @ p[2]),
    "vectors": Case("def f (x, y, w) = outer x y * dot x x + (x @ w) * y", ((3,), (3,), (3, 3)),
                    lambda t, F, p: t.outer(p[0], p[1]) * p[0].dot(p[0]) + (p[0] @ p[2]) * p[1]),
    "attention": Case("def f (q, k, v) = attention q k v + causal_attention q k v",
                      ((2, 4, 3), (2, 4, 3), (2, 4, 2)),
                      lambda t, F, p: F.scaled_dot_product_attention(*p)
                      + F.scaled_dot_product_attention(*p, is_causal=True)),
    "a head of patterns": Case(
        'def f (w, x) = rearrange{"b h t d -> b t (h d)"} '
        '(rearrange{"b t (h d) -> b h t d", h = 2} (x @ w)) * x',
        ((4, 4), (2, 3, 4)), lambda t, F, p: (p[1] @ p[0]) * p[1]),
    "an einsum": Case('def f (x, y, z) = einsum{"b i, i j, b k -> j b"} x y z', ((2, 3), (3, 4), (2, 5)),
                      lambda t, F, p: t.einsum("bi,ij,bk->jb", *p)),
    "movement": Case(
        "def f (x, y) = let z = concat (transpose x) y in let a, b = halves (reverse z) in "
        "pad{1, 2} (a * b) + reshape{[1, 6]} (slice{1, 4, axis = 1} z)",
        ((3, 2), (2, 3)),
        lambda t, F, p: (lambda z: F.pad(z[:, :3] * z[:, 3:], (1, 2)) + w(z))(
            t.cat([p[0].T, p[1]], 1).flip(1))),
    "splits": Case(
        "def f x = let a, b, c = thirds x in let d, e = split{1} (a .* b) in "
        "repeat{2} (concat e d) .+ concat (tril c) (squeeze{axis = 0} (expand{axis = 0} c))",
        ((2, 6),), lambda t, F, p: (lambda a, b, c: t.cat([(a * b)[:, 1:], (a * b)[:, :1]], 1).repeat(1, 2)
                                    + t.cat([c.tril(), c], 1))(*p[0].chunk(3, 1))),
    "broadcasts": Case("def f (x, y) = broadcast{[2, 3, 4]} x .* full{[2, 3, 4]} y",
                       ((3, 1), ()), lambda t, F, p: (p[0] * p[1]).expand(2, 3, 4)),
    "rows of a table": Case("def f (e, w) = let i = (iota{5} * 2) % 3 in (take e i + e.[1]) @ w", ((3, 4), (4, 2)),
                            lambda t, F, p: (p[0][t.arange(5) * 2 % 3] + p[0][1]) @ p[1]),
    "stacks": Case("def f (x, y) = [x * y, y, x .+ x]", ((3,), (3,)),
                   lambda t, F, p: t.stack([p[0] * p[1], p[1], p[0] + p[0]])),
    "a convolution along time": Case(
        "def f (w, x) = conv1d{stride = 2, pad = 2, dilation = 2} x w", ((3, 2, 3), (2, 2, 9)),
        lambda t, F, p: F.conv1d(p[1], p[0], stride=2, padding=2, dilation=2)),
    "a convolution": Case("def f (w, x) = conv2d{stride = 2, pad = 1} x w", ((4, 2, 3, 3), (2, 2, 5, 6)),
                          lambda t, F, p: F.conv2d(p[1], p[0], stride=2, padding=1)),
    "a depthwise convolution": Case(
        "def f (w, x) = conv2d{groups = 3} x w", ((3, 1, 2, 2), (2, 3, 4, 4)),
        lambda t, F, p: F.conv2d(p[1], p[0], groups=3)),
    "a transposed convolution": Case(
        "def f (w, x) = up{stride = 2, pad = 1} x w", ((2, 3, 4, 4), (2, 2, 3, 2)),
        lambda t, F, p: F.conv_transpose2d(p[1], p[0], stride=2, padding=1)),
    "pools": Case("def f x = max_pool x .* mean_pool x + upsample (expand{-1} (expand{-1} (global_mean x)))",
                  ((2, 3, 4, 4),), lambda t, F, p: F.max_pool2d(p[0], 2) * F.avg_pool2d(p[0], 2)
                  + p[0].mean((2, 3))[..., None, None]),
    "a residual block": Case(
        "def f (w, v, x) = relu (conv_same (relu (conv_same x w)) v .+ x)",
        ((2, 2, 3, 3), (2, 2, 3, 3), (1, 2, 4, 4)),
        lambda t, F, p: (F.conv2d(F.conv2d(p[2], p[0], padding=1).relu(), p[1], padding=1) + p[2]).relu()),
    "a recurrence": Case(
        "def f (w, u, h, xs) = let step h x = let h = tanh (x @ w .+ h @ u) in (h, h * h) in "
        "let last, all = scan step h xs in all + last",
        ((2, 3), (3, 3), (3,), (4, 2)), lambda t, F, p: scanned(t, *p)),
    "loops": Case(
        "def f (w, x) = iterate{3} (fn h -> sin (h @ w)) x + fold (fn s r -> s .* r) (x.[0]) x",
        ((3, 3), (2, 3)),
        lambda t, F, p: (((p[1] @ p[0]).sin() @ p[0]).sin() @ p[0]).sin() + p[1][0] * p[1][0] * p[1][1]),
    "maps": Case(
        "def f (x, y) = map (fn r -> sum (r * r)) x * map2 (fn r s -> dot r s) x y",
        ((3, 4), (3, 4)), lambda t, F, p: (p[0] * p[0]).sum(1) * (p[0] * p[1]).sum(1)),
    "a loop of unknown length": Case(
        "def f x = while (fn y -> sum_all (y .* y) < 50.0) (fn y -> y * 2.0 .+ x) x", ((3,),),
        lambda t, F, p: grown(p[0])),
    "a choice": Case("def f x = if sum_all x > 0.0 then x * x else exp x", ((3,),),
                     lambda t, F, p: p[0] * p[0] if p[0].sum() > 0 else p[0].exp()),
    "a derivative": Case("def f x = grad (fn y -> sum_all (y ** 3.0 * sin y)) x", ((4,),),
                         lambda t, F, p: 3 * p[0] ** 2 * p[0].sin() + p[0] ** 3 * p[0].cos()),
    "cross entropy": Case(
        "def f x = let i = iota{3} in sum (log_softmax x * cast{f64} (one_hot{4} i))", ((3, 4),),
        lambda t, F, p: -F.cross_entropy(p[0], t.arange(3), reduction="none")),
}  # fmt: skip


def w(z: Any) -> Any:
    """Part of the case `movement`: the columns before they were turned round."""
    return z.flip(1)[:, 1:4].reshape(1, 6)


def scanned(t: Any, w: Any, u: Any, h: Any, xs: Any) -> Any:
    """The case `a recurrence`."""
    found: list[Any] = []
    for x in xs:
        h = (x @ w + h @ u).tanh()
        found.append(h * h)
    return t.stack(found) + h


def grown(x: Any) -> Any:
    """The case `a loop of unknown length`."""
    y = x
    while (y * y).sum() < 50:
        y = y * 2 + x
    return y

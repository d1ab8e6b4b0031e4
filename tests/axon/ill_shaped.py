"""Programs whose shapes can't be right, by name."""

from __future__ import annotations

ILL_SHAPED: dict[str, str] = {
    "inner sizes": "def f (x: f32[b, 3]) (w: f32[4, 5]) = x @ w",
    "chain of layers": (
        "def f x =\n  let h = x @ zeros{[8, 16]} in\n  let y = relu h in\n  y @ zeros{[32, 4]}"
    ),
    "bias of the wrong length": "def f x = linear (zeros{[4, 8]}) (zeros{[9]}) x",
    "pointwise": "def f (x: f32[2, 3]) (y: f32[3, 2]) = x .+ y",
    "broadcast": "def f (x: f32[2, 3]) (y: f32[4, 3]) = x + y",
    "broadcast at the end": "def f (x: f32[..s, 3]) (y: f32[5]) = x * y",
    "ranks of a sum": "def f (x: f32[a, b]) (y: f32[a, b, c]) = x .+ y",
    "batch of a stack": "def f (x: f32[2, m, k]) (y: f32[3, k, n]) = matmul x y",
    "concat of other sizes": "def f (x: f32[a, 3]) (y: f32[b, 4]) = concat{axis = 0} x y",
    "concat of other ranks": "def f (x: f32[a]) (y: f32[a, b]) = concat x y",
    "slices of two numbers": "def f (x: f32[3]) (y: f32[4]) = vmap (fn (a, b) -> a + b) (x, y)",
    "slices of a scalar": "def f (x: f32[]) = vmap (fn a -> a) x",
    "no such axis": "def f (x: f32[a, b]) = sum{axis = 2} x",
    "no such axis from the end": "def f (x: f32[a, b]) = softmax{axis = -3} x",
    "odd halves": "def f (x: f32[b, 7]) = halves x",
    "thirds": "def f (x: f32[b, 8]) = thirds x",
    "quarters of gates": "def f x = quarters (linear (zeros{[3, 10]}) (zeros{[10]}) x)",
    "reshape to another size": "def f (x: f32[2, 6]) = reshape{[3, 5]} x",
    "reshape with a rest": "def f (x: f32[7]) = reshape{[2, _]} x",
    "reshape of a constant batch": (
        "def f (x: f32[2, 9]) =\n  let y = reshape{[1, 9]} x in\n  y"
    ),
    "heads that don't divide": (
        "def f (x: f32[t, 10]) = rearrange{\"t (h d) -> h t d\", h = 4} x"
    ),
    "einsum of two sizes": (
        "def f (x: f32[2, 3]) (y: f32[4, 5]) = einsum{\"i k, k j -> i j\"} x y"
    ),
    "einsum of another rank": (
        "def f (x: f32[2, 3, 4]) (y: f32[4, 5]) = einsum{\"i k, k j -> i j\"} x y"
    ),
    "trace of no square": "def f (x: f32[3, 4]) = einsum{\"i i -> i\"} x",
    "slice beyond the end": "def f (x: f32[b, 3]) = slice{0, 4} x",
    "slice backwards": "def f (x: f32[b, 8]) = slice{5, 3} x",
    "split beyond the end": "def f (x: f32[b, 3]) = split{4} x",
    "top of too few": "def f (x: f32[b, 3]) = top{5} x",
    "squeeze of 2": "def f (x: f32[2, n]) = squeeze{0} x",
    "channels of a convolution": (
        "def f (x: f32[b, 3, h, w]) (k: f32[8, 4, 3, 3]) = conv2d x k"
    ),
    "kernel larger than the image": "def f (x: f32[b, c, 2, 2]) (k: f32[o, c, 3, 3]) = conv2d x k",
    "pool of a line": "def f (x: f32[b, c, 1, 1]) = max_pool x",
    "second convolution": (
        "def f x =\n"
        "  let y = conv_same x (zeros{[8, 3, 3, 3]}) in\n"
        "  conv_same (relu y) (zeros{[8, 16, 3, 3]})"
    ),
    "residual of other channels": (
        "def f (x: f32[b, 4, h, w]) = x .+ conv_same x (zeros{[8, 4, 3, 3]})"
    ),
    "odd skip connection": (
        "def f (x: f32[b, c, 7, 8]) =\n  concat{axis = 1} (upsample (max_pool x)) x"
    ),
    "valid convolution and shortcut": (
        "def f (x: f32[b, c, h, w]) (k: f32[c, c, 3, 3]) = x .+ conv2d x k"
    ),
    "norm of another length": "def f (x: f32[b, 8]) = layer_norm (ones{[4]}) (zeros{[4]}) x",
    "offset of another length": "def f x = layer_norm (ones{[4]}) (zeros{[8]}) x",
    "keys of another width": (
        "def f (q: f32[b, t, 8]) (k: f32[b, s, 4]) (v: f32[b, s, 8]) = attention q k v"
    ),
    "fewer values than keys": (
        "def f (q: f32[b, t, 8]) (k: f32[b, 5, 8]) (v: f32[b, 6, 8]) = attention q k v"
    ),
    "causal across lengths": (
        "def f (q: f32[b, 4, d]) (k: f32[b, 5, d]) = causal_attention q k k"
    ),
    "state that grows": "def f xs = fold (fn s x -> concat s x) (zeros{[3]}) xs",
    "state of another size": (
        "def f (xs: f32[t, 4]) = fold (fn h x -> x @ zeros{[4, 5]}) (zeros{[4]}) xs"
    ),
    "iterate over a change": "def f (x: f32[b, 4]) = iterate{3} (fn y -> y @ zeros{[4, 5]}) x",
    "branches": (
        "def f (x: f32[4]) (y: f32[5]) = if sum_all x > 0.0 then x else y"
    ),
    "stack of two shapes": "def f (x: f32[4]) (y: f32[5]) = [x, y]",
    "condition that is no scalar": "def f (x: f32[4]) = if x > 0.0 then x else negate x",
    "scalar function of a matrix": "def f (x: f32[a, b]) (y: f32[c]) = dot x y",
    "map over a scalar": "def f (x: f32[4]) = map (fn row -> sum row) (sum x)",
    "called at two sizes": (
        "def g (x: f32[n]) (y: f32[n]) = x .* y\ndef f (a: f32[3]) (b: f32[4]) = g a b"
    ),
    "argument of a function of functions": (
        "def apply f x = f (f x)\ndef g (x: f32[3]) = x @ zeros{[3, 4]}\ndef h x = apply g x"
    ),
    "contradicting annotations": "def f (x: f32[n, 2*n]) = (x : f32[3, 7])",
    "annotation of the result": "def f (x: f32[b, 3]) : f32[b, 4] = relu x",
    "no whole number": "def f (x: f32[2*n]) (y: f32[7]) = x .+ y",
    "sizes in a circle": "def f (x: f32[n]) (y: f32[n + 1]) = x .+ y",
    "shape in itself": "def f (x: f32[..s]) (y: f32[..s, 1]) = x .+ y",
    "indices that aren't whole": "def f (table: f32[n, d]) (i: f32[k]) = take table i",
}  # fmt: skip

"""Attention forward: a grid of query blocks, and a loop over key blocks with an online softmax.

In two forms: `attend_block` takes one block of keys after the other, and leaves it to several warp
groups to overlap products and softmax; `attend_ahead` computes the scores of the next block beside
the softmax of this one. A mapping chooses: Instance("attend_block", variant="attend_ahead").
"""

import numpy as np

import tawa
import tawa.language as tl
from tawa.tasks import (
    READ,
    READ_WRITE,
    WRITE,
    clear,
    copy,
    launch,
    make_tensor,
    partition_by_blocks,
    prange,
    srange,
    task,
    tunable,
)


@task(o=WRITE, q=READ, k=READ, v=READ)
def attention(o, q, k, v, scale):
    """O = softmax(scale Q K^T) V, for tensors [heads, rows, D]."""


@task(o=WRITE, q=READ, k=READ, v=READ)
def attend(o, q, k, v, scale):
    """The same for a block of rows of one head."""


@task(highest=WRITE)
def lowest(highest):
    """All elements are minus infinity."""


@task(acc=READ_WRITE, highest=READ_WRITE, total=READ_WRITE, q=READ, k=READ, v=READ)
def add_keys(acc, highest, total, q, k, v, scale, first, keys):
    """Take keys from number `first` on, of `keys` in all, into the softmax."""


@task(scores=WRITE, q=READ, k=READ)
def score(scores, q, k, scale, first, keys):
    """Scores for the exponential of 2; minus infinity past the last of `keys`."""


@task(acc=READ_WRITE, highest=READ_WRITE, total=READ_WRITE, scores=READ, v=READ)
def weigh(acc, highest, total, scores, v):
    """Take a block of scores into the softmax."""


@task(o=WRITE, acc=READ, total=READ)
def divide(o, acc, total):
    """The weighted sums by the sums of weights."""


@attention.inner
def attention_grid(o, q, k, v, scale):
    """A block of queries of a head for each iteration."""
    U = tunable("U", 128)
    D = q.shape[2]
    of_o, of_q = partition_by_blocks(o, (None, U, D)), partition_by_blocks(q, (None, U, D))
    of_k = partition_by_blocks(k, (None, k.shape[1], D))
    of_v = partition_by_blocks(v, (None, v.shape[1], D))
    for head, i in prange(of_o.shape[0], of_o.shape[1]):
        launch(
            attend, of_o[head, i, 0], of_q[head, i, 0], of_k[head, 0, 0], of_v[head, 0, 0], scale
        )


@attend.inner
def attend_block(o, q, k, v, scale):
    """One block of queries, and all keys in blocks of V."""
    V = tunable("V", 64)
    of_k = partition_by_blocks(k, (V, k.shape[1]))
    of_v = partition_by_blocks(v, (V, v.shape[1]))
    acc = make_tensor(o.shape, tl.float32)
    highest = make_tensor(o.shape[:1], tl.float32)
    total = make_tensor(o.shape[:1], tl.float32)
    launch(clear, acc)
    launch(clear, total)
    launch(lowest, highest)
    for j in srange(of_k.shape[0]):
        launch(
            *(add_keys, acc, highest, total, q, of_k[j, 0], of_v[j, 0]),
            *(scale, j * V, k.shape[0]),
        )
    launch(divide, o, acc, total)


@attend.inner
def attend_ahead(o, q, k, v, scale):
    """The same, with the next block's scores computed before this one's are used."""
    V = tunable("V", 64)
    of_k = partition_by_blocks(k, (V, k.shape[1]))
    of_v = partition_by_blocks(v, (V, v.shape[1]))
    acc = make_tensor(o.shape, tl.float32)
    highest = make_tensor(o.shape[:1], tl.float32)
    total = make_tensor(o.shape[:1], tl.float32)
    scores = make_tensor((o.shape[0], V), tl.float32)
    following = make_tensor((o.shape[0], V), tl.float32)
    last = of_k.shape[0] - 1
    launch(clear, acc)
    launch(clear, total)
    launch(lowest, highest)
    launch(score, scores, q, of_k[0, 0], scale, 0, k.shape[0])
    for j in srange(last):
        launch(score, following, q, of_k[j + 1, 0], scale, (j + 1) * V, k.shape[0])
        launch(weigh, acc, highest, total, scores, of_v[j, 0])
        launch(copy, scores, following)
    launch(weigh, acc, highest, total, scores, of_v[last, 0])
    launch(divide, o, acc, total)


@lowest.leaf
def lowest_tile(highest):
    """Minus infinity."""
    return tl.full(highest.shape, -float("inf"), highest.dtype)


@tawa.jit
def masked_scores(q, k, scale, first, keys):
    """Scores for the exponential of 2; minus infinity past the last of `keys`."""
    columns = first + tl.arange(0, k.shape[0])
    scores = tl.dot(q, k.T) * (scale * 1.4426950408889634)
    return tl.where(columns[None, :] < keys, scores, -float("inf"))


@tawa.jit
def softmax_step(acc, highest, total, scores, v):
    """One step of the online softmax. A maximum that grows by less than 8 is left as it is."""
    found = tl.max(scores, axis=1)
    grown = found > highest + 8
    new = tl.where(grown, found, highest)
    correction = tl.where(grown, tl.exp2(highest - new), 1.0)
    p = tl.exp2(scores - new[:, None])
    total = total * correction + tl.sum(p, axis=1)
    acc = tl.dot(p.to(v.dtype), v, acc * correction[:, None])
    return acc, new, total


@add_keys.leaf
def add_keys_tile(acc, highest, total, q, k, v, scale, first, keys):
    """Both at once."""
    scores = masked_scores(q, k, scale, first, keys)
    acc, highest, total = softmax_step(acc, highest, total, scores, v)
    return acc, highest, total


@score.leaf
def score_tile(scores, q, k, scale, first, keys):
    """The scores alone."""
    return masked_scores(q, k, scale, first, keys)


@weigh.leaf
def weigh_tile(acc, highest, total, scores, v):
    """The step alone."""
    acc, highest, total = softmax_step(acc, highest, total, scores, v)
    return acc, highest, total


@divide.leaf
def divide_tile(o, acc, total):
    """Each row by its sum."""
    return acc * (1 / total)[:, None]


def reference(q, k, v, scale):
    """Attention, by NumPy."""
    scores = q @ k.swapaxes(1, 2) * scale
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True) @ v


def example_attention():
    """Rows that are no multiple of the blocks."""
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 2, 200, 64)).astype(np.float16)
    o = np.full_like(q, np.nan)
    attention(o, q, k, v, 0.125)
    return {"o": (o, reference(*(x.astype(np.float64) for x in (q, k, v)), 0.125))}

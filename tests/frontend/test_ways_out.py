"""`break` and `continue`: a kernel does what Python does with the same statements."""

from __future__ import annotations

import ast
import itertools

import numpy as np
import pytest

from tawa.frontend.syntax.leaving import always_leaves

HEAD = "def kernel(x, out, n, m):\n    count = 0\n    total = 0\n"
TAIL = "    tl.store(out, count)\n    tl.store(out + 1, total)\n"

BODIES = {
    "break": """
for i in range(n):
    v = tl.load(x + i)
    if v > 6:
        break
    total += v
    count = count + 1
""",
    "break that is not reached": """
i = 0
while i < n:
    if i > 1000:
        break
    total += tl.load(x + i)
    i += 1
count = i
""",
    "break, or the condition": """
i = 0
while tl.load(x + i) > 1:
    if total > m:
        break
    total += tl.load(x + i)
    i += 2
count = i
""",
    "continue": """
for i in range(0, n, 2):
    v = tl.load(x + i)
    if v < 4:
        continue
    total += v
    count = i
""",
    "both, on both sides": """
for i in range(n - 1, -1, -1):
    v = tl.load(x + i)
    if v > m:
        total += 10
        continue
    else:
        if v == 0:
            total += 100
            break
    count += v
""",
    "deep, with statements after each": """
for i in range(n):
    v = tl.load(x + i)
    if v > 3:
        if v > 8:
            count += 1000
            break
        if v == 5:
            count += 10
            continue
        total += 2
    else:
        total += 3
        if v == m:
            continue
        total += 30
    count += 1
total += 7
""",
    "while that is always true": """
while True:
    v = tl.load(x + count)
    total += v
    count += 1
    if total > 20:
        break
    if count >= n:
        break
""",
    "while whose condition loads": """
while tl.load(x + count) >= 0:
    if count == n - 1:
        break
    count += 1
    if count == m:
        continue
    total += count
""",
    "loops in loops": """
for i in range(n):
    for j in range(m):
        if j > i:
            break
        if (i + j) % 3 == 0:
            continue
        count += 1
        total += tl.load(x + j)
    if count > 9:
        break
    total += 1000
""",
    "unrolled": """
for i in tl.static_range(6):
    if i == 1:
        continue
    if i == 5:
        break
    v = tl.load(x + i)
    if v > m + 4:
        break
    count = count * 2 + i
    if v == 2:
        continue
    total += v
""",
    "at once": """
for i in range(n):
    count += 1
    if m == 3:
        total += 5
        break
    else:
        total += 6
        continue
    count += 100
""",
}


class Memory:
    """Pointers of plain Python."""

    def __init__(self, array, at=0):
        self.array, self.at = array, at

    def __add__(self, offset):
        return Memory(self.array, self.at + offset)


class Plain:
    """What `tl` is when a kernel runs as plain Python."""

    static_range = range

    @staticmethod
    def load(pointer):
        return int(pointer.array[pointer.at])

    @staticmethod
    def store(pointer, value):
        pointer.array[pointer.at] = value


def as_python(text, x, n, m):
    out = np.zeros(2, np.int32)
    names = {"tl": Plain}
    exec(text, names)
    names["kernel"](Memory(x), Memory(out), n, m)
    return out


@pytest.mark.parametrize("name", BODIES)
def test_as_in_python(launch, define, name):
    body = "".join(f"    {line}\n" for line in BODIES[name].strip().splitlines())
    kernel = define(HEAD + body + TAIL)
    rng = np.random.default_rng(0)
    for n, m in itertools.product((8, 2), (3, 6)):
        x = rng.integers(0, 10, 16).astype(np.int32)
        out = np.zeros(2, np.int32)
        launch(kernel, (1,), x, out, n, m)
        np.testing.assert_array_equal(out, as_python(HEAD + body + TAIL, x, n, m))


def test_the_condition_is_not_asked_after_a_break(launch, define):
    kernel = define(
        "def kernel(x, out, n):\n    i = 0\n    while tl.load(x + i) > 0:\n"
        "        if i == n - 1:\n            i += 1000000\n            break\n"
        "        i += 1\n    tl.store(out, i)\n"
    )
    out = np.zeros(1, np.int32)
    launch(kernel, (1,), np.ones(4, np.int32), out, 4)
    assert out[0] == 1000003


def test_tiles_are_carried_out_of_a_loop(launch, define):
    kernel = define(
        "def kernel(x, out, limit):\n    i = tl.arange(0, 16)\n"
        "    acc = tl.zeros((16,), tl.float32)\n"
        "    for k in range(8):\n        v = tl.load(x + k * 16 + i)\n"
        "        if tl.max(v) > limit:\n            break\n"
        "        acc += v\n    tl.store(out + i, acc)\n"
    )
    x = np.random.default_rng(0).random((8, 16)).astype(np.float32)
    x[5, 3] = 9
    out = np.zeros(16, np.float32)
    launch(kernel, (1,), x, out, 5.0)
    np.testing.assert_allclose(out, x[:5].sum(0), rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "leaves"),
    [
        ("break", True),
        ("x = 1\ncontinue", True),
        ("if a:\n break\nelse:\n continue", True),
        ("if a:\n break", False),
        ("if a:\n x = 1\nelse:\n break", False),
        ("if a:\n x = 1\ncontinue", True),
        ("for i in r:\n break", False),
        ("x = 1", False),
    ],
)
def test_statements_that_leave_on_every_path(text: str, leaves: bool):
    assert always_leaves(ast.parse(text).body) == leaves

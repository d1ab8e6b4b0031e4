"""What is compiled is what is written: names, defaults and texts that change after a launch."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.work import calls_made

import tawa
import tawa.language as tl
from tawa.frontend.source.dependencies import dependencies_of
from tawa.frontend.source.function import NoSource


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAWA_CACHE_DIR", str(tmp_path / "cache"))


Write = Callable[..., ModuleType]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes a module and imports it, without bytecode: it may be written anew at once."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names: list[str] = []

    def make(text: str, name: str = "written") -> ModuleType:
        head = "import tawa\nimport tawa.language as tl\n"
        (tmp_path / f"{name}.py").write_text(head + text)
        names.append(name)
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield make
    for name in names:
        sys.modules.pop(name, None)


def run(kernel: Any, *args: Any, dtype: Any = np.int32, **kwargs: Any) -> Any:
    out = np.zeros(1, dtype)
    kernel[(1,)](out, *args, **kwargs)
    return out[0]


KERNEL = """
N = tl.constexpr(4)

@tawa.jit
def helper(x, more: tl.constexpr = 1):
    return x + more

@tawa.jit
def kernel(o):
    tl.store(o, helper(N))
"""


def test_a_changed_global_makes_another_kernel(write: Write) -> None:
    m = write(KERNEL)
    assert run(m.kernel) == 5
    m.N = tl.constexpr(40)
    assert run(m.kernel) == 41
    m.N.value = 50
    assert run(m.kernel) == 51
    m.N = tl.constexpr(4)
    assert run(m.kernel) == 5
    del m.N
    with pytest.raises(tawa.TawaError, match="`N` is not defined"):
        run(m.kernel)


def test_what_was_compiled_for_a_value_is_found_again(write: Write) -> None:
    m = write(KERNEL)
    first = m.kernel[(1,)](np.zeros(1, np.int32))
    m.N = tl.constexpr(40)
    assert m.kernel[(1,)](np.zeros(1, np.int32)) is not first
    m.N = tl.constexpr(4)
    assert m.kernel[(1,)](np.zeros(1, np.int32)) is first


def test_a_changed_helper_makes_another_kernel(write: Write) -> None:
    m = write(KERNEL)
    other = write("@tawa.jit\ndef helper(x):\n    return x + 100\n", "other")
    assert run(m.kernel) == 5
    m.helper = other.helper
    assert run(m.kernel) == 104


def test_what_a_helper_names_counts(write: Write) -> None:
    inner = write("A = tl.constexpr(1)\n@tawa.jit\ndef add(x):\n    return x + A\n", "inner")
    m = write("import inner\n@tawa.jit\ndef kernel(o):\n    tl.store(o, inner.add(10))\n")
    assert run(m.kernel) == 11
    inner.A = tl.constexpr(2)
    assert run(m.kernel) == 12
    inner.add = write("@tawa.jit\ndef add(x):\n    return x * 3\n", "third").add
    assert run(m.kernel) == 30


def test_attributes_of_modules_classes_and_objects_count(write: Write) -> None:
    settings = write(
        "class Sizes:\n    N = tl.constexpr(1)\n\nclass Box:\n    pass\n\nbox = Box()\n"
        "box.n = tl.constexpr(1)\nM = tl.constexpr(1)\n",
        "settings",
    )
    m = write(
        "import settings\nfrom settings import Sizes, box\n@tawa.jit\ndef kernel(o):\n"
        "    tl.store(o, settings.M * 100 + Sizes.N * 10 + box.n)\n"
    )
    assert run(m.kernel) == 111
    settings.M = tl.constexpr(2)
    assert run(m.kernel) == 211
    settings.Sizes.N = tl.constexpr(2)
    assert run(m.kernel) == 221
    settings.box.n = tl.constexpr(2)
    assert run(m.kernel) == 222


METHODS = """
import functools

class Base:
    unit = 10
    table = [1, 2]

    def __init__(self, k):
        self.k = k

    def one(self):
        return self.k

    def other(self):
        return self.table[0] * 100 + self.one() if self.k >= 0 else self.other()

    @classmethod
    def of_class(cls):
        return cls.unit

    def whole(self):
        return getattr(self, "k")

    @property
    def twice(self):
        return self.k * 2

    def __call__(self):
        return self.k

    def times(self, x):
        return x * self.k

first, second = Base(1), Base(2)
bound = first.one
part = functools.partial(first.times, 3)
constant = tl.constexpr_function(first.times)

@tawa.jit
def kernel(o):
    tl.store(o, %s)
"""


@pytest.mark.parametrize(
    ("text", "change", "before", "after"),
    [
        ("first.one()", "first.k = 5", 1, 5), ("first.one() + second.one()", "second.k = 5", 3, 6),
        ("first.other()", "first.k = 5", 101, 105), ("first.other()", "Base.table[0] = 2", 101, 201),
        ("first.other()", "first.table = [3]", 101, 301), ("Base.of_class()", "Base.unit = 7", 10, 7),
        ("first.of_class()", "Base.unit = 7", 10, 7), ("first.whole()", "first.k = 5", 1, 5),
        ("first.twice", "first.k = 5", 2, 10), ("first()", "first.k = 5", 1, 5),
        ("bound()", "first.k = 5", 1, 5), ("part()", "first.k = 5", 3, 15),
        ("constant(3)", "first.k = 5", 3, 15), ("first.one()", "Base.one = Base.whole", 1, 1),
        ("first.one()", "first = second", 1, 2),
    ],
)  # fmt: skip
def test_what_methods_read_of_their_object_counts(
    write: Write, text: str, change: str, before: int, after: int
) -> None:
    m = write(METHODS % text)
    assert run(m.kernel) == before
    assert dependencies_of(m.kernel).unchanged()
    exec(change, m.__dict__)
    assert run(m.kernel) == after


def test_what_attributes_stand_for_is_watched(write: Write) -> None:
    """A bound method is another object each time; an equal object may be another one later."""
    m = write(METHODS % "first.times(second.k)")
    found = dependencies_of(m.kernel)
    assert found.unchanged()
    assert dependencies_of(m.kernel).digest == found.digest
    m.second.k = 2.0
    assert not found.unchanged()
    assert dependencies_of(m.kernel).digest != found.digest
    m.second.k = 2
    assert found.unchanged()
    del m.first
    assert not found.unchanged()


def test_a_name_that_hides_a_builtin_counts(write: Write) -> None:
    m = write("@tawa.jit\ndef kernel(o):\n    tl.store(o, max(3, 4))\n")
    assert run(m.kernel) == 4
    m.max = write("@tawa.jit\ndef least(a, b):\n    return a - b\n", "other").least
    assert run(m.kernel) == -1


def test_closures_count(write: Write) -> None:
    m = write(
        "def make(c):\n    c = tl.constexpr(c)\n    def change(value):\n        nonlocal c\n"
        "        c = tl.constexpr(value)\n    @tawa.jit\n    def kernel(o):\n        tl.store(o, c)\n"
        "    return kernel, change\n"
    )
    one, change = m.make(1)
    two, _ = m.make(2)
    assert (run(one), run(two)) == (1, 2)
    change(3)
    assert (run(one), run(two)) == (3, 2)


def test_functions_run_while_compiling_count(write: Write) -> None:
    m = write(
        "TABLE = {1: 10}\nSCALE = 2\n@tl.constexpr_function\ndef look(n):\n"
        "    return TABLE[n] * SCALE\n@tawa.jit\ndef kernel(o):\n    tl.store(o, look(1))\n"
    )
    assert run(m.kernel) == 20
    m.SCALE = 3
    assert run(m.kernel) == 30
    m.TABLE[1] = 11
    assert run(m.kernel) == 33


def test_default_values_count(write: Write) -> None:
    m = write(KERNEL + "@tawa.jit\ndef own(o, c: tl.constexpr = 7):\n    tl.store(o, c)\n")
    assert (run(m.kernel), run(m.own)) == (5, 7)
    m.helper.fn.__defaults__ = (2,)
    m.own.fn.__defaults__ = (8,)
    assert (run(m.kernel), run(m.own)) == (6, 8)


def test_defaults_that_are_computed_are_told_apart_on_disk(write: Write) -> None:
    text = "V = {}\n@tawa.jit\ndef own(o, c: tl.constexpr = V):\n    tl.store(o, c)\n"
    found = [run(write(text.format(value)).own) for value in (1, 2)]
    assert found == [1, 2]


def test_a_function_that_is_a_constant_counts(write: Write) -> None:
    m = write(
        "A = tl.constexpr(1)\n@tawa.jit\ndef add(x):\n    return x + A\n"
        "@tawa.jit\ndef kernel(o, F: tl.constexpr):\n    tl.store(o, F(10))\n"
    )
    assert run(m.kernel, m.add) == 11
    m.A = tl.constexpr(5)
    assert run(m.kernel, m.add) == 15


@tawa.jit
def kind_of(o, C: tl.constexpr):
    if C is True:
        tl.store(o, 1)
    elif C is None:
        tl.store(o, 2)
    elif isinstance(C, float):
        tl.store(o, 3)
    else:
        tl.store(o, 4)


@tawa.jit
def first_of(o, C: tl.constexpr):
    if C[0] is True:
        tl.store(o, 1)
    elif isinstance(C[0], float):
        tl.store(o, 3)
    else:
        tl.store(o, 4)


@tawa.jit
def value_of(o, C: tl.constexpr):
    tl.store(o, C)


@tawa.jit
def part_of(o, C):
    tl.store(o, C[0])


def test_equal_constants_of_other_classes_have_kernels_of_their_own() -> None:
    assert [run(kind_of, c) for c in (True, 1, 1.0, None, True)] == [1, 4, 3, 2, 1]
    assert [run(first_of, c) for c in ((1,), (True,), (1.0,))] == [4, 1, 3]
    wrapped = [tl.constexpr(True), tl.constexpr(1), tl.constexpr(1.0)]
    assert [run(kind_of, c) for c in wrapped] == [1, 4, 3]


def test_zeros_of_both_signs() -> None:
    for kernel, wrap in ((value_of, lambda c: c), (part_of, lambda c: (tl.constexpr(c),))):
        found = [np.signbit(run(kernel, wrap(c), dtype=np.float32)) for c in (0.0, -0.0, 0.0)]
        assert found == [False, True, False]


def test_not_a_number_is_compiled_for_once() -> None:
    for _ in range(3):
        assert np.isnan(run(value_of, float("nan"), dtype=np.float32))
    keys = [key for key in value_of._compiled if "nan" in repr(key)]
    assert len(keys) == 1


def test_the_text_is_taken_at_decoration(write: Write, tmp_path: Path) -> None:
    body = "@tawa.jit\ndef kernel(o):\n    tl.store(o, {})\n@tawa.jit\ndef other(o):\n    tl.store(o, {})\n"
    m = write(body.format(1, 77))
    path = tmp_path / "written.py"
    path.write_text("# a new line\n" + path.read_text().replace("77", "78").replace("1)", "2)"))
    os.utime(path, (1, 1))
    assert (run(m.kernel), run(m.other)) == (1, 77)
    assert run(tawa.jit(m.kernel.fn)) == 1, "a second decoration of the same function"
    m = importlib.reload(m)
    assert (run(m.kernel), run(m.other)) == (2, 78)


def test_another_function_s_text_is_refused(write: Write, tmp_path: Path) -> None:
    path = tmp_path / "late.py"
    early = "@tawa.jit\ndef kernel(o):\n    tl.store(o, 1)\n"
    late = "@tawa.jit\ndef moved(o, x):\n    tl.store(o, x)\n"
    code = compile("import tawa\nimport tawa.language as tl\n" + early, str(path), "exec")
    path.write_text("import tawa\nimport tawa.language as tl\n" + late)
    names: dict[str, Any] = {}
    exec(code, names)
    with pytest.raises(NoSource, match="changed while it was imported"):
        run(names["kernel"])


def test_what_has_no_text_is_refused() -> None:
    names = {"tawa": tawa, "tl": tl}
    exec("@tawa.jit\ndef kernel(o):\n    tl.store(o, 7)\n", names)
    kernel: Any = names["kernel"]
    with pytest.raises(NoSource, match="can't be read"):
        run(kernel)
    with pytest.raises(NoSource, match="not a `def`"):
        run(tawa.jit(lambda o: tl.store(o, 9)))


def test_a_wrapped_function_is_refused(write: Write) -> None:
    m = write(
        "import functools\ndef twice(f):\n    @functools.wraps(f)\n    def g(*a):\n"
        "        f(*a); f(*a)\n    return g\n@tawa.jit\n@twice\ndef kernel(o):\n    tl.store(o, 7)\n"
    )
    with pytest.raises(NoSource, match="another decorator"):
        run(m.kernel)


def test_methods_and_functions_of_notebooks(write: Write) -> None:
    import linecache

    m = write(
        "class K:\n    @staticmethod\n    @tawa.jit\n    def m(o, x):\n        tl.store(o, x)\n"
    )
    assert run(m.K.m, 11) == 11
    for value in (1, 2):  # a cell that is run again has another name
        text = f"@tawa.jit\ndef cell(o):\n    tl.store(o, {value})\n"
        file = f"<cell {value}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        names: dict[str, Any] = {"tawa": tawa, "tl": tl}
        exec(compile(text, file, "exec"), names)
        assert run(names["cell"]) == value


def test_the_same_text_with_other_globals(write: Write) -> None:
    text = "V = tl.constexpr({})\n@tawa.jit\ndef kernel(o):\n    tl.store(o, V)\n"
    one, two = write(text.format(1), "one"), write(text.format(2), "two")
    assert (run(one.kernel), run(two.kernel)) == (1, 2)


def test_looking_costs_one_call(write: Write) -> None:
    m = write(KERNEL)
    run(m.kernel)
    known = m.kernel._known
    assert known.unchanged()
    assert calls_made(known.unchanged) == calls_made(lambda: None)

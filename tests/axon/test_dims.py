"""Canonical dimensions: arithmetic agrees with Python's integers."""

from __future__ import annotations

import pickle
import threading
import weakref

from hypothesis import given
from hypothesis import strategies as st
from tests.work import calls_made

from tawa.axon.sizes.choices import joined, largest, smallest
from tawa.axon.sizes.chunks import chunks
from tawa.axon.sizes.conditional import unless
from tawa.axon.sizes.dims import Dim, Floor, exact_quotient, floor_quotient, total
from tawa.axon.sizes.shapes import evaluate
from tawa.functional.terms import Variable

VARIABLES = [Variable("dim", name) for name in "abc"]
values = st.fixed_dictionaries({v: st.integers(1, 12) for v in VARIABLES})


@st.composite
def terms(draw: st.DrawFn, depth: int = 3) -> tuple[Dim, object]:
    """A dimension, and the same as a nested tuple for Python to compute."""
    if depth == 0 or draw(st.booleans()):
        if draw(st.booleans()):
            number = draw(st.integers(-6, 12))
            return Dim.of(number), number
        variable = draw(st.sampled_from(VARIABLES))
        return Dim.of(variable), variable
    operator = draw(st.sampled_from(["+", "-", "*", "//", "max", "chunk"]))
    left, one = draw(terms(depth - 1))
    if operator == "chunk":
        size, count = largest([left, Dim.of(0)]), draw(st.integers(2, 5))
        index = draw(st.integers(0, count - 1))
        return chunks(size, count)[index], ("chunk", ("max", one, 0), (count, index))
    if operator == "//":
        number = draw(st.integers(1, 6))
        return left // number, ("//", one, number)
    right, other = draw(terms(depth - 1))
    made = {"+": left + right, "-": left - right, "*": left * right}
    return made.get(operator) or (largest([left, right]) if operator == "max" else left - right), (
        operator,
        one,
        other,
    )


def compute(tree: object, known: dict[Variable, int]) -> int:
    if isinstance(tree, Variable):
        return known[tree]
    if not isinstance(tree, tuple):
        assert isinstance(tree, int)
        return tree
    operator, left, right = tree
    if operator == "chunk":
        size, (count, index) = compute(left, known), right
        each = -(-size // count)
        return min(each, max(size - each * index, 0))
    a, b = compute(left, known), compute(right, known)
    return {"+": a + b, "-": a - b, "*": a * b, "max": max(a, b), "//": a // (b or 1)}[operator]


def test_equal_sizes_are_one_object():
    a, b = (Dim.of(v) for v in VARIABLES[:2])
    assert (a + 2 * 3) * b is b * 6 + b * a
    assert largest([a - b, (a + b) // 4]) is largest([(b + a) // 4, a - b])
    assert pickle.loads(pickle.dumps(Dim.of(7))) is Dim.of(7)


def test_sizes_whose_hashes_are_equal_are_different():
    a = Dim.of(VARIABLES[0])
    one, two = ((((VARIABLES[0], 1),), c) for c in (-1, -2))
    assert hash(one) == hash(two)
    sizes = [a - 1, a - 2, -a, a * -2, Dim.of(-1), Dim.of(-2)]
    assert len(set(sizes)) == len(sizes)
    del sizes[::2]  # the others are found as before
    assert [(a - 2) is sizes[0], (a * -2) is sizes[1], Dim.of(-2) is sizes[2]] == [True] * 3
    assert [(size - size).constant for size in sizes] == [0] * 3


def test_a_sum_of_one_quotient_ends_and_is_made_again():
    quotient = Floor(Dim.of(Variable("dim", "own")), Dim.of(3))  # no cache has a sum of it
    ends = weakref.ref(Dim.of(quotient))
    assert ends() is None
    made = Dim.of(quotient)
    assert Dim.of(quotient) is made is (made + 1) - 1


def test_threads_make_one_object_of_a_size():
    a, found = Dim.of(VARIABLES[0]), dict[int, set[int]]()
    kept: list[Dim] = []

    def make() -> None:
        for number in range(2000):
            made = (a * (number % 7 - 3) + number) // 5 + a
            kept.append(made)
            found.setdefault(number, set()).add(id(made))

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {len(made) for made in found.values()} == {1}


def test_what_is_nested_twice_is_looked_into_once():
    a = Dim.of(VARIABLES[0])
    for n in range(11):
        a = (a * 3 + n) // 7 * (a // 5)
    assert list(a.variables()) == [VARIABLES[0]]
    assert calls_made(lambda: list(a.atoms())) < 10_000
    other = Dim.of(VARIABLES[1])
    slope, rest = (a * other + a).linear_in(VARIABLES[1]) or (None, None)
    assert slope is rest is a


def test_what_is_known_of_a_long_sum_is_what_its_terms_say():
    variables = [Variable("dim") for _ in range(40)]
    found = Dim.of(5)
    for variable in [*variables[::2], *variables[1::2]]:
        found = found + Dim.of(variable) // 3 - variable.id
        assert list(found.free) == [v for v in variables if v in found.free]
        assert found.weight == sum(2 for _ in found.symbols.terms) + bool(found.offset)
        assert found.extent[1] == 1
        assert found.extent[2] == max(3, abs(found.offset), 1)
    assert list(found.free) == variables


@given(st.lists(terms(), min_size=1, max_size=8), values)
def test_a_sum_is_one_object_in_any_order(
    parts: list[tuple[Dim, object]], known: dict[Variable, int]
):
    dims = [dim for dim, _ in parts]
    found = total(dims)
    assert found is total(reversed(dims)) is sum(dims[1:], dims[0])
    numbers = [evaluate(dim, known.get) for dim in dims]
    if None not in numbers:
        assert evaluate(found, known.get) == sum(number or 0 for number in numbers)


@given(terms(), values)
def test_evaluates_as_python_does(term: tuple[Dim, object], known: dict[Variable, int]):
    dim, tree = term
    assert evaluate(dim, known.get) == compute(tree, known)


@given(terms(), values)
def test_a_lower_bound_is_one(term: tuple[Dim, object], known: dict[Variable, int]):
    low = term[0].least()
    assert low is None or low <= compute(term[1], known)


@given(terms(), values)
def test_an_upper_bound_is_one(term: tuple[Dim, object], known: dict[Variable, int]):
    high = term[0].most()
    assert high is None or high >= compute(term[1], known)


COUNTS = [Variable("count", name) for name in "pq"]
p, q = (Dim.of(count) for count in COUNTS)
PARTS = [p, q, Dim.of(1), Dim.of(3), *(smallest([n, Dim.of(k)]) for n in (p, q) for k in (1, 2, 4))]


@given(
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=3),
    st.fixed_dictionaries({count: st.integers(0, 5) for count in COUNTS}),
)
def test_joined_dimensions_are_what_broadcasting_gives(
    parts: list[Dim], known: dict[Variable, int]
):
    sizes = {evaluate(part, known.get) for part in parts} - {1}
    if len(sizes) <= 1:
        assert evaluate(joined(parts), known.get) == (sizes.pop() if sizes else 1)


def test_bounds_look_at_each_choice():
    a = Dim.of(VARIABLES[0])
    cut = smallest([a, Dim.of(512)])
    assert largest([Dim.of(0), cut]) == cut
    assert (a - cut).least() == 0
    assert cut.most() == 512


@given(terms(2), terms(2))
def test_exact_quotients_multiply_back(top: tuple[Dim, object], bottom: tuple[Dim, object]):
    if bottom[0].terms:
        quotient = exact_quotient(top[0] * bottom[0], bottom[0])
        assert quotient == top[0]


def test_equal_polynomials_are_one_value():
    a, b = (Dim.of(v) for v in VARIABLES[:2])
    assert (a + b) * (a - b) == a * a - b * b
    assert (a * 4 + 2) // 2 == a * 2 + 1
    assert (a // 2) // 3 == a // 6
    assert (a * b) // b == a
    assert largest([a, a + 1]) == a + 1


def test_rounded_quotients_are_compared_by_what_they_round():
    a = Dim.of(VARIABLES[0])
    assert (a - a // 2 - (a + 1) // 2).least() == 0
    assert ((a + 1) // 2 + a // 2 - a).most() == 0
    assert (a - a // 3 * 3).most() == 2
    assert largest([(a + 2) // 3, a - a * 2 // 3]) == (a + 2) // 3


def test_a_quotient_of_a_size_is_no_more_than_the_size():
    for kind in ("dim", "count"):
        a = Dim.of(Variable(kind, "a"))
        assert largest([a, a // 2]) == largest([(a + 4) // 5, a]) == a
        assert smallest([a + 3, (a + 5) // 3]) == (a + 5) // 3
        assert (largest([a, (a + 2) // 2]) == a) == (kind == "dim")  # of 0 it is 1
    z = Dim.of(Variable("integer", "z"))
    assert largest([z, z // 2]) != z  # -1 of -2
    a, below = Dim.of(Variable("dim", "a")), floor_quotient(Dim.of(Variable("dim", "a")) - 5, z)
    assert largest([a, below]) != a  # 5 - a if z is -1
    assert largest([below, a]) != a


def test_a_size_whose_condition_never_holds_is_the_other():
    a, b = (Dim.of(v) for v in VARIABLES[:2])
    assert unless(a, b, (a, Dim.of(0))) is b
    assert unless(a, b, (Dim.of(1),)) is a

"""Proofs of every launch: what is correct is proved, what is broken never is."""

from __future__ import annotations

import contextlib
import re

import numpy as np
import pytest
from handwritten import gemm_text, hopper_context
from launches import LAUNCHES
from protocols import BROKEN, EDITS, broken, correct
from xdsl.parser import Parser

from tawa.simulate import prove
from tawa.simulate.check.protocol import CheckReport
from tawa.simulate.prove.facts import Facts, NeedsModulus
from tawa.simulate.prove.unknowns import (
    Sum,
    applied,
    plus,
    positive,
    scaled,
    term,
    zero,
)

REGISTERS = {"AccumulatorInFlight", "MissingWgmmaFence", "StaleFragment"}
"""Errors of registers, which are not shared memory: recorded runs find them."""


@pytest.mark.parametrize("kind", ["cooperative", "cluster", "copies"])
def test_correct_kernels_are_proved(kind: str):
    proof = prove(correct(kind).module())
    assert proof.proved, proof.why
    assert proof.states < 100


def test_a_loop_that_counts_by_what_it_carries_comes_back_to_a_state():
    """A look-back goes on to the program before, for as many as there are."""
    scan = next(small for small in LAUNCHES if small.name == "scan")
    proof = prove(scan.recorded().compile().module("hopper"))
    assert proof.proved, proof.why
    assert proof.states < 20


@pytest.mark.parametrize("name", [e.name for e in EDITS if e.error not in REGISTERS])
def test_broken_kernels_never_are(name: str):
    assert not prove(broken(name).module()).proved


def test_why_names_the_rule_that_is_broken():
    why = prove(broken("proxy fence dropped").module()).why
    assert why.startswith("MissingProxyFence")
    assert BROKEN["proxy fence dropped"].error in why


UNEQUAL = (
    (r"(%puts = ew\.map addi\(%tiles_k,) %zero", r"\1 %one"),
    (r"(%puts = ew\.map )addi(\(%tiles_k,) %zero", r"\1subi\2 %one"),
    (r"(%puts = ew\.map )addi(\(%tiles_k,) %zero", r"\1addi\2 %tiles_m"),
    (r"(%stop_k = ew\.map addi\(%tiles_k,) %zero", r"\1 %one"),
    (r"(%stop_k = ew\.map )addi(\(%tiles_k,) %zero", r"\1subi\2 %one"),
    (r"(%stop_k = ew\.map )addi\(%tiles_k, %zero\)", r"\1minsi(%tiles_k, %depth)"),
    (r"(%start_k = ew\.map addi\()%zero", r"\1%one"),
    (r"(scf\.for %k = )%zero", r"\1%one"),
    (r"(scf\.for %k = %zero to %puts step) %one", r"\1 %two"),
    (r"(scf\.for %k = %start_k to %stop_k step) %one", r"\1 %two"),
)


@pytest.mark.parametrize("kind", ["cooperative", "cluster", "copies"])
@pytest.mark.parametrize("number", range(len(UNEQUAL)))
def test_loops_that_do_not_run_equally_often_are_seen(kind: str, number: int):
    pattern, new = UNEQUAL[number]
    text, count = re.subn(pattern, new, gemm_text(kind), count=1)
    if not count:  # the producer of copies has no bound of its own
        text, count = re.subn(r"(%k = %zero to )%tiles_k", r"\1%tiles_m", gemm_text(kind), count=1)
    assert count
    module = Parser(hopper_context(), text).parse_module()
    assert not prove(module).proved


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("kernels/gemm", {}),
        ("gemm_bias", {"num_stages": 1, "mma_depth": 0}),
        ("gemm_bias", {"cluster": 2}),
        ("attention", {"num_stages": 1, "mma_depth": 0}),
        ("attention_dq", {"num_stages": 1}),
        ("dual_gemm", {"num_stages": 2, "staging": 1}),
        ("gemm, odd tiles", {"persistent": True, "ping_pong": True, "num_stages": 3}),
        ("gemm_bias", {"specialize": False}),
        ("kernels/attention, e4m3", {"specialize": False}),
        ("gemm", {"cluster": 2, "num_stages": 1, "mma_depth": 0}),
    ],
)
def test_compiled_kernels_are_proved(name: str, options: dict[str, object]):
    small = next(s for s in LAUNCHES if s.name == name)
    proof = prove(small.sweep().module({**small.fixed, **options}))
    assert proof.proved, proof.why


def test_a_report_says_what_was_proved():
    report = CheckReport("k", (1,), every=prove(correct().module()))
    assert report.for_every_launch
    assert "proved for every launch: no deadlock, no race of shared memory" in report.render()
    report.cut = True
    assert not report.for_every_launch
    report.every = prove(broken("slot never returned").module())
    assert "not proved for every launch: nobody can go on" in report.render()


# --- numbers that are not known -----------------------------------------------------------------

N, M = term("parameter", "n"), term("parameter", "m")


def value(number, n: int, m: int) -> int:
    """A number for given parameters."""
    if isinstance(number, int):
        return number
    return number.constant + sum(factor * of_term(t, n, m) for t, factor in number.terms)


def of_term(found, n: int, m: int) -> int:
    if found[0] == "parameter":
        return {"n": n, "m": m}[found[1]]
    if found[0] in ("pos", "zero"):
        e = value(found[1], n, m)
        return int(e > 0 if found[0] == "pos" else e == 0)
    if found[0] in ("quotient", "residue"):
        whole, rest = divmod(value(found[1], n, m), found[2])
        return whole if found[0] == "quotient" else rest
    function, _, *parts = found[1:]
    parts = [value(p, n, m) for p in parts]
    if function == "select":
        return parts[1] if parts[0] else parts[2]
    result = applied(function, "i32", parts)
    assert isinstance(result, int)
    return result


def random_number(random: np.random.Generator, depth: int):
    if depth == 0:
        return [N, M, int(random.integers(-6, 7))][random.integers(3)]
    a, b = (random_number(random, depth - 1) for _ in range(2))
    kind = random.integers(8)
    if kind < 3:
        return plus(a, b, int(random.integers(-3, 4)))
    if kind == 3:
        return applied("select", "i32", [positive(plus(a, b, -1)), a, b])
    if kind == 4:
        return applied(["minsi", "maxsi"][random.integers(2)], "i32", [a, b])
    if kind == 5:
        return positive(a) if random.integers(2) else zero(a)
    constant = int(random.integers(1, 9))
    if kind == 6:
        return applied(["divsi", "remsi"][random.integers(2)], "i32", [a, constant])
    mask = [1, 3, 7][random.integers(3)]
    return applied(["andi", "ori", "xori"][random.integers(3)], "i32", [scaled(a, 8), mask])


def asked_of(facts: Facts, number) -> list[tuple[object, ...]]:
    """Conditions about a number: its sign, whether it is 0, and what would decide it."""
    found = [n.terms[0][0] for n in (positive(number), zero(number)) if isinstance(n, Sum)]
    found = [condition for condition in found if condition[0] in ("pos", "zero")]
    with contextlib.suppress(NeedsModulus):
        found.append(facts.asked_for(number))
    return [c for c in found if c is not None and facts.decided(c) is None]


@pytest.mark.parametrize("modulus", [1, 4, 6])
def test_simplified_numbers_are_the_same_numbers(modulus: int):
    """Under whatever was decided, of all parameters for which it is so."""
    random = np.random.default_rng(5)
    for _ in range(300):
        facts = Facts(modulus=modulus)
        cases = [(n, m) for n in range(-4, 9) for m in range(-4, 9)]
        for _ in range(6):
            for condition in asked_of(facts, facts.simplified(random_number(random, 2))):
                if facts.decided(condition) is None:
                    n, m = cases[random.integers(len(cases))]
                    holds = bool(of_term(condition, n, m))
                    assert facts.assume(condition, holds)
                    assert facts.decided(condition) is holds
                    cases = [c for c in cases if of_term(condition, *c) == holds]
        number = random_number(random, 3)
        simple = facts.simplified(number)
        low, high = facts.bounds(number)
        for n, m in cases:
            true = value(number, n, m)
            assert value(simple, n, m) == true
            assert low is None or low <= true
            assert high is None or true <= high

"""What the resumable function keeps of a particle: its frames, and nothing else."""

from __future__ import annotations

import math
from functools import cache

import pytest
from conformance_continuous import CASES as CONTINUOUS
from conformance_discrete import CASES as DISCRETE

from tawa import cuppl
from tawa.cuppl.core.ir import Copy, Load, Type
from tawa.cuppl.lowering.dataflow import live_at_entry
from tawa.cuppl.lowering.frames import DISPATCH, Machine
from tawa.cuppl.lowering.pipeline import lower

LISTS = (
    "def grow l n = if n == 0 then l else let x = sample (gamma 2 1) in\n"
    "  observe (exponential x) 1; grow (Cons (x, l)) (n - 1)\n"
    "def main () = list_length (grow Nil 12)"
)
CONTROL = (
    "def main () = let p = prompt () in reset p (fn () ->\n"
    "  let x = shift p (fn k -> k 1.0 + k 2.0) in observe (normal x 1) 0.5; x)"
)
MEMO = (
    "def main () = let f = mem (fn k -> let x = sample (normal (float k) 1) in\n"
    "  observe (normal x 1) 0; x) in f 0 + f 1"
)
HEAP = ("mem ", "prompt", "Cons", "vector", "map")
GIVEN = dict.fromkeys(case.source for case in (*DISCRETE, *CONTINUOUS))
SOURCES = [LISTS, CONTROL, MEMO, *(s for s in GIVEN if any(word in s for word in HEAP))]


@cache
def machines(explicit_recursion: bool) -> list[Machine]:
    """The resumable functions of the programs that use the heap."""
    found = [
        lower(cuppl.model(source).elaborated, True, explicit_recursion=explicit_recursion).machine
        for source in SOURCES
    ]
    return [machine for machine in found if machine is not None]


@pytest.mark.parametrize("explicit_recursion", [False, True])
def test_a_resumed_particle_reads_only_what_its_frames_hold(explicit_recursion: bool) -> None:
    """A register set before a suspension may hold another particle's value after it."""
    all_machines = machines(explicit_recursion)
    assert len(all_machines) > 10
    for machine in all_machines:
        live = live_at_entry(machine.function)[DISPATCH]
        names = {r.name for r in live if not r.name.startswith("ret")}
        assert names <= {"state", "stride", "limit", "top"}


@pytest.mark.parametrize("explicit_recursion", [False, True])
def test_no_frame_hides_a_reference_from_the_collector(explicit_recursion: bool) -> None:
    """An integer in a frame that is the copy of a reference would keep the old address."""
    for machine in machines(explicit_recursion):
        blocks = machine.function.blocks
        copies = {
            item.dst
            for block in blocks.values()
            for item in block.instructions
            if isinstance(item, Copy) and item.src.type is Type.REF and item.dst.type is Type.I64
        }
        popped = {
            item.dst
            for name, block in blocks.items()
            if name.startswith("resume")
            for item in block.instructions
            if isinstance(item, Load)
        }
        assert not copies & popped


def test_only_what_may_wait_has_a_frame_to_come_back_to() -> None:
    """Not a coin with a bad bias; of vectors made one after the other, some at once."""

    def frames(program: str) -> int:
        observed = f"def main () = {program} observe (normal 0 1) 1; (b0, b59)"
        machine = lower(cuppl.model(observed).elaborated, True).machine
        assert machine is not None
        return len(machine.frames)

    coins = "".join(f"let b{k} = flip (1.0 / {k + 2}.0) in " for k in range(60))
    vectors = "".join(f"let b{k} = [w, {k}.0] in " for k in range(60))
    assert frames(coins) < 8
    assert frames("let w = sample (normal 0 1) in " + vectors) < 16


TAKEN = "let p = prompt () in let x = reset p (fn () -> shift p (fn k -> k 3)) in"
WAITS = {
    "goes on": f"""def main () =
  let r = (let () = observe (bernoulli 0.25) true in slice 1 2 (tabulate 4 (fn _ -> 3))) in
  {TAKEN} Cons (x, Nil)""",
    "begins a call again": f"""def weigh n = observe (bernoulli 0.5) true; let v = tabulate 3 (fn i -> n + i) in v.[1]
def main () = {TAKEN} let a = weigh x in let b = weigh a in (a, b)""",
}


@pytest.mark.parametrize("case", WAITS)
def test_a_particle_that_waits_for_memory_is_weighed_once(case: str) -> None:
    """Without resampling, weights lie between the points where a particle may wait."""
    weights = cuppl.model(WAITS[case]).importance(6000, threads=1)
    assert len(set(weights.weights)) == 1
    assert weights.log_evidence == pytest.approx(math.log(0.25), abs=1e-12)

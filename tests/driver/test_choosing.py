"""Which candidate of a launch is taken: the first that compiles without a loss, of two tried."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from plain_products import gemm
from xdsl.dialects.builtin import ModuleOp

from tawa.base.errors import TawaError
from tawa.base.options import Options
from tawa.driver import choosing, compiler
from tawa.driver import compile_cache as kept
from tawa.driver.choice.candidates import Candidate
from tawa.driver.choice.choose import Ranking
from tawa.driver.choice.model import Prediction
from tawa.driver.choosing import Refusals, Refused, Rejected, fitted, loses
from tawa.driver.compilation import Compilation, PassFailed
from tawa.driver.compiler import compile_kernel, tile_level, tile_options
from tawa.driver.neighbours import alone, at_first, beside
from tawa.ir.decisions.assembling import CompiledForNeighbours
from tawa.ir.decisions.choice import Chosen
from tawa.partition.partition import Partition


class Impossible(TawaError, group=True):
    """A kernel that does not compile."""


@dataclass(frozen=True)
class Kernel:
    """Stands for a compiled kernel."""

    options: Any = ()
    findings: tuple[str, ...] = ()
    decisions: tuple[Any, ...] = ()


def options(name: str) -> tuple[tuple[str, Any], ...]:
    return tuple((part.split("=")[0], int(part.split("=")[1])) for part in name.split() if part)


def ranked(*names: str) -> Ranking:
    better = [Prediction(Candidate(options(name)), 1.0 + n) for n, name in enumerate(names)]
    return Ranking(Prediction(Candidate(), 9.0), tuple(better))


def taken(names: list[str], outcomes: dict[str, Any]) -> tuple[Any, list[Any]]:
    """The options that are taken, and all that were compiled, in order."""
    compiled: list[Any] = []

    def compile_(found: Any) -> Any:
        compiled.append(found)
        outcome = next((o for n, o in outcomes.items() if options(n) == found), ())
        if isinstance(outcome, Exception):
            raise outcome
        return Kernel(found, outcome)

    found = fitted(ranked(*names), compile_)
    return found, compiled


SPILL = ("spill",)
A, B, C, D = (f"num_stages={n}" for n in range(3, 7))
TWO, TWO_DEEP = "ctas_per_sm=2", "num_stages=2 ctas_per_sm=2"


@pytest.mark.parametrize(
    ("names", "outcomes", "expected", "tried"),
    [
        ([A, B], {}, A, [A]), ([A, B], {A: Impossible("no")}, B, [A, B]),
        ([A, B], {A: Refused("no")}, B, [A, B]), ([A, B], {A: SPILL}, B, [A, "", B]),
        ([A, B], {A: SPILL, "": SPILL}, A, [A, ""]),  # as written it spills, too
        ([A, B, C, D], {A: Impossible("no"), B: SPILL, C: SPILL}, "", [A, B, "", C, "", ""]),
        ([A, B, C, D], {A: SPILL, B: Impossible("no"), C: SPILL}, "", [A, "", B, C, "", ""]),
        ([TWO, TWO_DEEP, A], {TWO: Impossible("no")}, A, [TWO, A]),  # no room for two
        ([A, A, B], {A: Impossible("no")}, B, [A, B]), ([], {}, "", [""]),
    ],
)  # fmt: skip
def test_which_candidate_is_taken(
    names: list[str], outcomes: dict[str, Any], expected: str, tried: list[str]
) -> None:
    found, compiled = taken(names, outcomes)
    assert found.options == found.compiled.options == options(expected)
    assert compiled == [options(name) for name in tried]
    decided = [d for d in found.compiled.decisions if isinstance(d, Chosen)]
    assert len(decided) == bool(names)
    if decided:
        assert decided[0].taken.options == str(Candidate(options(expected)))
        assert decided[0].written.options == "as written"
        assert [c.microseconds for c in decided[0].others] == [1.0 + n for n in range(len(names))]


def test_as_written_errors_are_raised() -> None:
    with pytest.raises(Impossible):
        taken([A, B], {A: Impossible("a"), B: Impossible("b"), "": Impossible("written")})


def test_only_the_first_candidates_count() -> None:
    names = [f"num_stages={n}" for n in range(2, 12)]
    found, compiled = taken(names, {n: Impossible("no") for n in names})
    assert len(compiled) == choosing.TRIED + 1
    (decided,) = found.compiled.decisions
    assert len(decided.others) == choosing.MOST_SHOWN
    same = [*["ctas_per_sm=2 num_stages=2"] * choosing.MOST_SHOWN, A]
    found, _ = taken(same, {same[0]: Impossible("no")})
    assert found.options == ()


@pytest.mark.parametrize(
    ("own", "written", "lost"),
    [((), (), False), (SPILL, (), True), (SPILL, SPILL, False), ((), SPILL, False)],
)
def test_what_is_a_loss(own: Any, written: Any, lost: bool) -> None:
    assert loses(Kernel((), own), lambda key: Kernel(key, written)) is lost  # type: ignore[arg-type,return-value]


def test_what_lost_is_not_tried_again() -> None:
    """Nor is anything with as many CTAs, unless those had room."""
    seen = Rejected()
    two, four, one = (options(f"ctas_per_sm={n} num_stages=3") for n in (2, 4, 1))
    other = options("ctas_per_sm=2")
    seen.add(two, crowded=False)
    assert two in seen
    assert other not in seen
    seen.add(other)
    assert all(key in seen for key in (other, options("num_stages=9 ctas_per_sm=2")))
    assert four not in seen
    seen.add(one)
    assert options("ctas_per_sm=1") not in seen
    assert options(A) not in seen
    assert () not in seen


def test_what_did_not_compile_is_remembered(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAWA_CACHE_DIR", str(tmp_path))
    kept = Refusals(lambda options: f"key of {options.num_stages}")
    calls: list[Any] = []

    def compile_(options: Options) -> Any:
        calls.append(options.num_stages)
        if options.num_stages == 3:
            raise Impossible("too many")
        return "kernel"

    with pytest.raises(Impossible):
        kept.compiled(Options(num_stages=3), compile_)
    for again in (kept, Refusals(lambda options: f"key of {options.num_stages}")):
        with pytest.raises(Refused):
            again.compiled(Options(num_stages=3), compile_)
    assert kept.compiled(Options(num_stages=4), compile_) == "kernel"
    assert calls == [3, 4]


def built(threads: int = 256, shared: int = 1000, taken: int = 200, copies: bool = True,
          findings: tuple[str, ...] = ()) -> Any:  # fmt: skip
    """A kernel of a copying role beside a computing one, as the assembler left it."""
    from xdsl.dialects.builtin import ModuleOp

    from tawa.aref.dialect.ops import WarpGroup

    module = ModuleOp([WarpGroup("load", 4, 1, copies=copies), WarpGroup("math", 4, 1)])
    functions = [SimpleNamespace(registers=taken)] if taken else []
    report = SimpleNamespace(functions=functions)
    return SimpleNamespace(
        spec=SimpleNamespace(threads=threads, shared_bytes=shared), findings=findings,
        module=lambda level: module, product=SimpleNamespace(report=report), decisions=("one",),
    )  # fmt: skip


MACHINE = Options().machine
HALF = MACHINE.registers // 2 // 256


@pytest.mark.parametrize(
    ("kernel", "asked", "expected"),
    [
        ({}, {}, True), ({"threads": 384}, {}, False), ({"threads": 128}, {}, False),
        ({"copies": False}, {}, False), ({"taken": HALF}, {}, False),
        ({"taken": HALF + 1}, {}, True), ({"taken": 0}, {}, False),
        ({}, {"persistent": True}, False), ({}, {"ctas_per_sm": 2}, False),
        ({}, {"cluster": 2}, False), ({}, {"schedule": 1}, False),
        ({"shared": MACHINE.shared_bytes}, {}, False),
        ({"shared": MACHINE.shared_bytes // 2 - 2048}, {}, True),
    ],
)  # fmt: skip
def test_kernels_that_have_a_multiprocessor_for_themselves(
    kernel: dict[str, Any], asked: dict[str, Any], expected: bool
) -> None:
    """Only registers keep a second CTA away: two have room in shared memory."""
    assert alone(built(**kernel), Options(**asked)) is expected


@pytest.mark.parametrize("outcome", ["fits", "spills", "fails"])
def test_a_second_cta_is_made_room_for(outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tawa.driver.neighbours.replace", lambda found, **changed: (
        Options(**changed) if isinstance(found, Options) else (found.name, changed["decisions"])
    ))  # fmt: skip
    asked: list[int] = []

    def compile_(options: Options, module: Any) -> Any:
        asked.append(options.ctas_per_sm)
        if outcome == "fails":
            raise Impossible("no registers")
        found = built(findings=SPILL if outcome == "spills" else ())
        found.name = "shared"
        return found

    first = built()
    found = beside(first, Options(), compile_)
    assert asked == [2]
    if outcome == "fits":
        assert found == ("shared", ("one", CompiledForNeighbours(2)))
    else:
        assert found is first
    for other in (built(findings=SPILL), built(threads=384)):
        assert beside(other, Options(), compile_) is other
    assert asked == [2]


@pytest.mark.parametrize(
    ("kernel", "asked", "expected"),
    [
        ({}, {}, False), ({}, {"persistent": True}, True),
        ({"copies": False}, {"persistent": True}, False),
        ({"threads": 384}, {"persistent": True}, False),
        ({"shared": MACHINE.shared_bytes}, {"persistent": True}, False),
        ({}, {"persistent": True, "ctas_per_sm": 2}, False),
        ({}, {"persistent": True, "schedule": 1}, False),
        ({"findings": SPILL}, {"persistent": True}, False),
    ],
)  # fmt: skip
def test_persistent_kernels_are_made_for_two_at_first(
    kernel: dict[str, Any], asked: dict[str, Any], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody assembles one for a CTA alone, unless that for two spills."""
    made = built(**kernel)
    monkeypatch.setattr("tawa.driver.neighbours.spec_of", lambda module: made.spec)
    monkeypatch.setattr("tawa.driver.neighbours.replace", lambda found, **changed: (
        Options(**changed) if isinstance(found, Options) else changed["decisions"]
    ))  # fmt: skip
    first = SimpleNamespace(module="hopper", aref=made.module("aref"))
    attempts: Any = SimpleNamespace(
        compilation=SimpleNamespace(options=Options(**asked)), first=first, tile="tile"
    )
    given: list[Any] = []

    def compile_(options: Options, module: Any) -> Any:
        given.append((options.ctas_per_sm, module))
        return made

    found = at_first(attempts, compile_)
    assert found == (("one", CompiledForNeighbours(2)) if expected else None)
    assert given in ([], [(2, "tile")])


def test_profiles_are_looked_up(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for a key; again without one, and where what is kept cannot be read."""
    monkeypatch.setenv("TAWA_CACHE_DIR", str(tmp_path))
    looked: list[Any] = []

    def profiled(*parts: Any) -> Any:
        looked.append(parts[-1])
        return SimpleNamespace(to_json=lambda: f'"{len(looked)}"')

    def read(text: str) -> str:
        if text == '"3"':
            raise ValueError("no profile")
        return f"read {text}"

    monkeypatch.setattr(choosing, "_profiled", profiled)
    monkeypatch.setattr(choosing, "source_digest", lambda name, store: "one")
    monkeypatch.setattr(choosing, "Profile", SimpleNamespace(from_json=read))
    parts: Any = (None, {}, {}, Options())
    choosing.profile_for(*parts)
    choosing.profile_for(*parts, "a")
    assert choosing.profile_for(*parts, "a") == 'read "2"'
    choosing.profile_for(*parts, "b")
    choosing.profile_for(*parts, "b")
    assert looked == [None, "a", "b", "b"]
    assert choosing.profile_for(*parts, "b") == 'read "4"'
    monkeypatch.setattr(choosing, "source_digest", lambda name, store: "another")
    choosing.profile_for(*parts, "a")
    assert looked[4:] == ["a"]


GEMM = ("desc<f16,128x64>", "desc<f16,128x64>", "desc<f16,128x128>", "i32")


@pytest.mark.parametrize("other", [{}, {"num_stages": 3}, {"consumers": 1}, {"num_warps": 8}])
def test_what_was_looked_at_is_compiled(
    other: dict[str, Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program is read once, and divided once if it is compiled as it was looked at."""
    done: list[str] = []
    monkeypatch.setattr(compiler, "_LAST", [])
    divide, lower = Partition.apply, compiler.lower_to_tile
    monkeypatch.setattr(Partition, "apply", lambda *a: (done.append("divided"), divide(*a))[1])
    monkeypatch.setattr(
        compiler, "lower_to_tile", lambda *a, **k: (done.append("read"), lower(*a, **k))[1]
    )
    found: list[Any] = []
    for looked_at in (False, True):
        monkeypatch.setenv("TAWA_CACHE_DIR", str(tmp_path / str(looked_at)))
        request = gemm.request(*GEMM)
        parts = gemm, request.types, request.constants
        if looked_at:
            choosing.profile_for(*parts, request.options, kept.key_of(*parts, request.options))
        asked = replace(request.options, **other)
        for _ in range(2):  # the second one is on disk
            compiled = compile_kernel(*parts, asked)
        found.append((compiled.stages, compiled.remarks))
    assert found[0] == found[1]
    again = (["read"] if "num_warps" in other else []) + (["divided"] if other else [])
    assert done == ["read", "divided", "read", "divided", *again]


def test_roles_are_verified_with_what_becomes_of_them(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that was divided when it was looked at: the pass that broke it is named."""
    divide = Partition.apply

    def broken(self: Partition, module: ModuleOp) -> ModuleOp:
        roles = divide(self, module)
        (kernel,) = roles.ops
        end = kernel.regions[0].block.last_op
        assert end is not None
        end.detach()
        end.erase()
        return roles

    monkeypatch.setattr(compiler, "_LAST", [])
    monkeypatch.setattr(Partition, "apply", broken)
    monkeypatch.setenv("TAWA_VERIFY", "0")
    monkeypatch.setenv("TAWA_CACHE_DIR", str(tmp_path))
    request = gemm.request(*GEMM)
    parts = gemm, request.types, request.constants, request.options
    choosing.profile_for(*parts, kept.key_of(*parts))
    monkeypatch.setattr(Partition, "apply", divide)
    with pytest.raises(PassFailed, match=r"one of the passes .*partition, .* broke"):
        compile_kernel(*parts)


def test_what_the_tile_level_depends_on() -> None:
    """`tile_options` has all options that it reads: the others are not even there."""
    asked = tile_options(Options(num_warps=8, num_stages=5, enable_reflect_ftz=False))
    assert asked == Options(num_warps=8, enable_reflect_ftz=False)
    names = "num_warps", "default_dot_input_precision", "enable_reflect_ftz", "same_array"
    only = SimpleNamespace(**{name: getattr(asked, name) for name in names})
    request = gemm.request(*GEMM)
    work = Compilation(cast("Any", only))
    module = tile_level(work, gemm, request.types, request.constants)
    plain = tile_level(Compilation(asked), gemm, request.types, request.constants)
    assert str(module) == str(plain)

"""Machine code: natives apart from programs, and kept for other processes."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from tawa import cuppl
from tawa.base import import_closure
from tawa.cuppl.core.ir import print_function
from tawa.cuppl.cpu import engine
from tawa.cuppl.cpu.executable import driver_program
from tawa.cuppl.cpu.group_text import GROUP_NATIVES
from tawa.cuppl.cpu.llvm import emit_unit
from tawa.cuppl.cpu.units import Unit, cut
from tawa.cuppl.lowering.pipeline import lower
from tawa.cuppl.translation import kept_natives, native
from tawa.cuppl.typing.language import Cuppl

WEIGHTED = "def main () = let x = sample (gamma {shape} 2) in observe (poisson x) 3; x"


def units(source: str) -> dict[str, Unit]:
    """The units of a program under SMC, by their native (the program's own: empty)."""
    program, exported = driver_program(lower(cuppl.model(source).elaborated, True), "smc_thread")
    return {unit.native: unit for unit in cut(program, list(exported))}


def test_long_natives_and_drivers_are_units_of_their_own() -> None:
    found = units(WEIGHTED.format(shape=1.5))
    assert {"", "smc_thread", "sample_gamma", "lgamma", "philox_ahead"} <= found.keys()
    own = {function.name for function in found[""].functions}
    assert {"machine", "run_machine", "log"} <= own  # short natives are compiled in
    assert own.isdisjoint({"sample_gamma", "lgamma", "advance", "philox_ahead"})
    assert found[""].public == {"run_machine", "run_segment", *GROUP_NATIVES}
    defined = [f.name for u in found.values() for f in u.functions if f.name in u.public]
    assert len(defined) == len(set(defined))


def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the modules that are compiled from now on, as by a new process."""
    names: list[str] = []
    optimised = engine._optimised  # pyright: ignore[reportPrivateUsage]

    def noted(machine: object, module: engine.Module) -> object:
        names.append(module.name.split(" ")[1] if module.name else "")
        return optimised(machine, module)

    monkeypatch.setattr(engine, "_optimised", noted)
    monkeypatch.setattr(engine, "_known", {})
    return names


def test_machine_code_is_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAWA_CACHE_DIR", str(tmp_path))
    source = WEIGHTED.format(shape=1.5)
    with monkeypatch.context() as patch:
        names = compiled(patch)
        first = cuppl.model(source).smc(500, seed=1, threads=1)
        assert {"", "smc_thread", "lgamma"} <= set(names)
    with monkeypatch.context() as patch:
        names = compiled(patch)
        again = cuppl.model(source).smc(500, seed=1, threads=1)
        assert names == []
        assert again.log_evidence == first.log_evidence
        cuppl.model(WEIGHTED.format(shape=2.5)).smc(500, threads=1)
        assert set(names) == {""}  # another program shares the natives
    for entry in tmp_path.rglob("*.kernel"):
        entry.write_bytes(entry.read_bytes()[:-1] + b"?")
    with monkeypatch.context() as patch:
        names = compiled(patch)
        damaged = cuppl.model(source).smc(500, seed=1, threads=1)
        assert "" in names
        assert damaged.log_evidence == first.log_evidence


def test_parse_tables_and_library_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAWA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(import_closure, "_DIGESTS", {})  # that of the source is kept, too
    text = "## Doubles.\ndef f x = 2.0 * x # twice\ndef main () = f (mean [1.0, 2.0])"
    made, read = Cuppl(), Cuppl()
    assert made.check_program(text).schemes.keys() == read.check_program(text).schemes.keys()
    assert len(list(tmp_path.rglob("*.kernel"))) == 5
    assert read.built_ins.keys() == made.built_ins.keys()
    for language in (made, read):
        module = language.parse(text)
        assert [c.text for c in module.comments] == ["## Doubles.", "# twice"]
        checked = language.check_program(text)
        assert str(checked.schemes["f"].type) == str(made.check_program(text).schemes["f"].type)


def test_short_functions_are_copied_but_chains_of_them_do_not_grow() -> None:
    doubling = "".join(f"def f{n} x = f{n - 1} (f{n - 1} x + 1.0)\n" for n in range(1, 40))
    source = f"def f0 x = x * x\n{doubling}def main () = factor (f2 (sample (normal 0 1))); f39 1.0"
    program, exported = driver_program(lower(cuppl.model(source).elaborated, True), "smc_thread")
    (own,) = [unit for unit in cut(program, list(exported)) if not unit.native]
    copied = {
        line.split('"cuppl.')[1].split('"')[0]
        for line in emit_unit(program, own, exported).splitlines()
        if line.startswith("define") and "alwaysinline" in line
    }
    chain = [name for name in copied if name.startswith("f")]
    assert 0 < len(chain) < 10


def test_natives_are_translated_once_for_all_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAWA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(native, "_translated", {})
    kept_natives._known.cache_clear()
    first = native.translate("philox")
    kept_natives.keep_natives()
    monkeypatch.setattr(native, "_translated", {})
    monkeypatch.setattr(native, "_translate_now", None)  # what is kept needs no translation
    kept_natives._known.cache_clear()
    assert print_function(native.translate("philox")) == print_function(first)
    kept_natives._known.cache_clear()


def test_compiling_leaves_the_collection_of_garbage_as_it_was() -> None:
    for running in (False, True):
        (gc.enable if running else gc.disable)()
        model = cuppl.model(WEIGHTED.format(shape=1.25))
        model.executable(suspend=True)
        assert gc.isenabled() == running

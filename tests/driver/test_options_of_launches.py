"""Options of launches: which keywords are some, wishes that do not fit, and what can't be recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tawa
from tawa import frontend
from tawa.base.options import BadOption, Options
from tawa.codegen.shared_memory import SharedMemoryExceeded
from tawa.driver.compiled import Stages
from tawa.driver.launch_options import launch_options
from tawa.driver.recording import require_no_text
from tawa.driver.tuning import Tuner
from tawa.driver.wishes import fitted_wishes
from tawa.frontend.lower import lower_to_tile
from tawa.hopper.recording.instrument import NotInstrumentable
from tawa.ir.decisions.choice import Chosen, Considered
from tawa.runtime.launch_errors import UnknownLaunchOption


def test_options_are_told_from_other_keywords() -> None:
    found = launch_options("k", {"num_warps": 8, "stream": 3, "extern_libs": {"m": "path"}})
    assert found == Options(num_warps=8)
    assert launch_options("k", {"debug": True}) == launch_options("k", {})
    with pytest.raises(UnknownLaunchOption, match="did you mean `num_warps`") as caught:
        launch_options("k", {"num_warp": 4})
    assert "num_warp=4" in str(caught.value)
    with pytest.raises(UnknownLaunchOption) as caught:
        launch_options("k", {"zzzzzz": 4})
    assert "did you mean" not in str(caught.value)


@dataclass(frozen=True)
class Made:
    """What a compilation gives."""

    options: Options
    decisions: tuple[Any, ...] = ()


def no_room(options: Options) -> Any:
    if options.num_stages is not None:
        raise SharedMemoryExceeded(300, 200, [], None)
    return Made(options)


def test_stages_that_do_not_fit_are_left_open_if_they_were_a_wish() -> None:
    asked = Options(num_stages=9)
    found: Any = fitted_wishes({"num_stages"}, asked, no_room)
    assert found.options == replace(asked, num_stages=None)
    (decision,) = found.decisions
    assert decision.sentence.startswith("num_stages=9 does not fit")
    with pytest.raises(SharedMemoryExceeded):
        fitted_wishes((), asked, no_room)
    plain: Any = fitted_wishes((), Options(), no_room)
    assert plain == Made(Options())


def test_ctas_of_a_program_are_left_out_if_they_were_a_wish() -> None:
    asked = Options(num_ctas=2, num_stages=9)
    found: Any = fitted_wishes({"num_ctas", "num_stages"}, asked, no_room)
    assert found.options == Options(num_ctas=1)
    assert [d.option for d in found.decisions] == ["num_ctas", "num_stages"]
    with pytest.raises(BadOption, match="there is no num_ctas=2"):
        fitted_wishes({"num_stages"}, asked, no_room)
    assert fitted_wishes((), Options(num_ctas=1), no_room) == Made(Options(num_ctas=1))


@pytest.mark.parametrize(
    ("start", "override", "refused"),
    [
        (None, None, False),
        (("cu", "text"), None, True),
        (("tile", "text"), None, False),
        (None, {"cu": "text"}, True),
        (None, {"hopper": "text"}, False),
        (("tile", "text"), {"ptx": "t", "cu": "text"}, True),
    ],
)
def test_a_kernel_from_cuda_text_records_nothing(start: Any, override: Any, refused: bool) -> None:
    if not refused:
        require_no_text("k", start, override)
        return
    with pytest.raises(NotInstrumentable, match="k can't record its timeline"):
        require_no_text("k", start, override)


def test_stages_answer_to_tritons_names() -> None:
    kept = {"tile": "t", "hopper": "h", "cubin": b"c"}
    stages = Stages(SimpleNamespace(stages=kept, sass="machine code"))  # pyright: ignore
    assert (stages["ttir"], stages["ttgir"], stages["sass"]) == ("t", "h", "machine code")
    assert "ptx" not in stages
    moved = Stages(SimpleNamespace(stages={"ptx": "ld.global.f32 %f1, [%rd1];"}))  # pyright: ignore
    assert "ld.global.b32" in moved["ptx"]
    with pytest.raises(KeyError):
        stages["llir"]


def test_what_the_decorator_makes(tmp_path: Path) -> None:
    def kernel(x, n): ...

    kept = tawa.jit(tune=str(tmp_path / "kept.json"))(kernel)
    assert isinstance(kept, Tuner)
    assert kept.file == tmp_path / "kept.json"
    alone: Any = tawa.jit(tune=True)(kernel)
    assert isinstance(alone, Tuner)
    assert alone.file is None
    plain = tawa.jit(kernel)
    assert not isinstance(plain, Tuner)
    assert type(tawa.jit()(kernel)) is type(plain)


def test_the_front_end_loads_its_compiler_when_it_is_asked_for() -> None:
    assert frontend.lower_to_tile is lower_to_tile
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        frontend.no_such_name  # noqa: B018 # pyright: ignore


def test_a_choice_names_the_others() -> None:
    taken, written, third = (Considered(n, t) for n, t in (("a", 1.0), ("b", 2.0), ("c", 3.0)))
    chosen = Chosen(taken=taken, written=written, others=(taken, third))
    assert chosen.sentence == (
        "a 1.0 us predicted (an ordering, not a time), of: b 2.0 us, c 3.0 us"
    )

"""Every library and example kernel is safe with the options it ships, and with pairs of options.

The table in docs/protocols.md is written from these rows by `python scripts/check_protocols.py`.
"""

import re

import numpy as np
import pytest
from launches import EXAMPLES, LAUNCHES, LIBRARY, ROOT, SMALL, VALUES, Small

import tawa
import tawa.language as tl
from tawa.cli.check import NOT_PROVED, PROVED, check_combinations
from tawa.cli.check_sweep import ALONE, Pairs, Sweep, every_combination
from tawa.cli.empty_arrays import EmptyArrays
from tawa.simulate import Proof
from tawa.simulate.interpret.limits import Limits
from tawa.simulate.interpret.races import RaceBetweenPrograms


@pytest.mark.parametrize("small", LAUNCHES, ids=[f"{s.name}-{n}" for n, s in enumerate(LAUNCHES)])
def test_no_schedule_goes_wrong(small: Small):
    rows = small.rows()
    wrong = [f"{row.render()}\n{row.detail}" for row in rows if row.possible and not row.safe]
    assert wrong == []
    assert any(row.possible for row in rows)
    assert all(row.states > 0 for row in rows if row.safe)


def test_every_example_and_library_kernel_is_there():
    named = {small.name for small in EXAMPLES}
    for path in (ROOT / "examples").glob("*.py"):
        names = set(re.findall(r"^def example_(\w+)\(", path.read_text(), re.MULTILINE))
        assert names <= named
    kernels = {small.recorded().kernel.__name__ for small in LIBRARY}
    assert {"gemm", "attention_forward"} <= kernels


def test_pairs_cover_every_two_values_that_are_possible_together():
    values = {"num_stages": (None, 1, 2), "mma_depth": (None, 0, 1), "persistent": (None, True),
              "cluster": (1, 2)}  # fmt: skip

    def possible(options):
        return not (options.get("cluster") == 2 and options.get("persistent") is None)

    pairs = Pairs({}, [{"persistent": True}], values)
    tried = []
    for pair, options in pairs:
        tried.append(options)
        pairs.done(pair, options, possible(options))
    seen = [{n: o.get(n, v[0]) for n, v in values.items()} for o in tried if possible(o)]
    for a, x, b, y in [("num_stages", 2, "mma_depth", 1), ("num_stages", None, "cluster", 2),
                       ("mma_depth", 0, "persistent", True), ("persistent", True, "cluster", 2)]:  # fmt: skip
        assert any(o[a] == x and o[b] == y for o in seen)
    assert pairs.given_up == [(("persistent", None), ("cluster", 2))]
    assert len(tried) < 20


def test_all_combinations_are_legal_and_distinct():
    found = [repr(options) for options in every_combination({"specialize": None, "cluster": 1})]
    assert len(found) == len(set(found))
    assert len(found) > 200
    assert not any("'num_stages': 1" in text and "'mma_depth': 1" in text for text in found)
    assert all(name in " ".join(found) for name in ALONE)


def test_values_are_known():
    from tawa.cli.check_sweep import VALUES as ALL

    assert all(set(values) <= set(ALL[name]) for name, values in VALUES.items())
    assert {small.name for small in SMALL} >= {"gemm", "attention"}


@pytest.mark.parametrize(
    ("bound", "every", "status"),
    [(100_000, True, PROVED), (5, True, PROVED), (5, False, NOT_PROVED)],
)
def test_the_command_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    bound: int,
    every: bool,
    status: int,
):
    if not every:  # the search within its bound is all that is left
        monkeypatch.setattr("tawa.simulate.prove", lambda *_: Proof(False, "not tried", 0, 0.0))
    options = ["ping_pong=None", "persistent=True", "num_stages=2", "mma_depth=1", "consumers=2",
               "cluster=1", "specialize=None", "num_warps=4", "deal=1", "ctas_per_sm=1",
               "load_together=False", "bulk_copies=True", "stream_stores=False"]  # fmt: skip
    where = f"{ROOT}/examples/gemm_bias.py:gemm_bias"
    assert check_combinations(where, options, every=False, limits=Limits(bound)) == status
    out = capsys.readouterr().out
    assert out.startswith("global memory: no conflict between programs")
    assert re.search(r"\d+ combinations: .*(every launch|proved|ordered)", out)


@tawa.jit
def counts_up(out, n, PROGRAMS: tl.constexpr):
    at = tl.arange(0, 32) + tl.program_id(0) % PROGRAMS * 32
    tl.store(out + at, at + n)


def sweep_of(programs: int) -> tuple[Sweep, np.ndarray]:
    out = np.zeros(64, np.int32)
    return Sweep(counts_up, (2,), {"out": out, "n": 3, "PROGRAMS": programs}), out


def test_combinations_have_to_give_what_the_tile_level_gives():
    sweep, out = sweep_of(2)
    assert sweep.check_memory(EmptyArrays()).startswith("global memory: no conflict")
    assert sweep.check({}).safe
    assert out.tolist() == list(range(3, 67))
    sweep, out = sweep_of(2)
    sweep.check_memory(EmptyArrays())
    sweep._results[0][5] += 1
    assert sweep.check({}).verdict == "wrong: other results in `out`"


def test_programs_that_write_to_one_place_are_seen():
    with pytest.raises(RaceBetweenPrograms):
        sweep_of(1)[0].check_memory(EmptyArrays())

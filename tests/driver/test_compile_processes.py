"""How many processes compile the variants of a kernel, and what each is given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tawa.base.object_text import object_of
from tawa.driver import compile_processes
from tawa.driver.compile_processes import compile_variants


def plain() -> None:
    """Stands for a kernel's function."""


class Kernel:
    """A kernel some of whose variants are kept."""

    def __init__(self, kept: int, fn: Any = plain) -> None:
        self.kept, self.fn = kept, fn
        self.__name__ = "plain"

    def request(self, **variant: Any) -> int:
        return variant["n"]

    def is_compiled(self, request: int) -> bool:
        return request < self.kept


class Process:
    """One that ends at once."""

    def wait(self) -> None: ...

    def kill(self) -> None: ...


@pytest.fixture
def shares(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What processes were started with."""
    started: list[bytes] = []
    monkeypatch.setattr(
        compile_processes, "_started", lambda share: (started.append(share), Process())[1]
    )
    monkeypatch.setattr(compile_processes, "free_cores", lambda: 16)
    return started


def variants(count: int) -> list[dict[str, Any]]:
    return [{"n": n} for n in range(count)]


@pytest.mark.parametrize(
    ("count", "kept", "cores", "processes"),
    [
        (8, 0, 16, 4), (8, 4, 16, 2), (8, 5, 16, 0), (8, 8, 16, 0), (3, 0, 16, 0), (4, 0, 16, 2),
        (5, 0, 16, 2), (6, 0, 16, 3), (40, 0, 16, 8), (40, 0, 3, 3), (40, 0, 2, 2), (40, 0, 1, 0),
        (0, 0, 16, 0),
    ],
)  # fmt: skip
def test_two_variants_are_worth_a_process(
    count: int, kept: int, cores: int, processes: int, shares: list[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """At most eight, at most one a core; together they are given all that are not kept, once."""
    monkeypatch.setattr(compile_processes, "free_cores", lambda: cores)
    assert compile_variants(Kernel(kept), variants(count)) == processes  # type: ignore[arg-type]
    assert len(shares) == processes
    given: list[int] = []
    sizes: list[int] = []
    for share in shares:
        file, module, name, own = object_of(share, {})
        assert (file, module, name) == (__file__, __name__, "plain")
        given += [variant["n"] for variant in own]
        sizes.append(len(own))
    assert sorted(given) == (list(range(kept, count)) if processes else [])
    assert not sizes or max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("why", ["inside", "no file", "dumped", "no Python", "unwritable"])
def test_what_no_process_can_compile(
    why: str, shares: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def inner() -> None: ...

    kernel = Kernel(0, inner if why == "inside" else plain)
    if why == "no file":
        code = SimpleNamespace(co_filename="<stdin>")
        kernel.fn = SimpleNamespace(__code__=code, __qualname__="f", __name__="f", __module__="m")
    if why == "dumped":
        monkeypatch.setenv("TAWA_DUMP_DIR", "/tmp/dump")
    if why == "no Python":
        monkeypatch.setattr(compile_processes.sys, "executable", "")
    asked = [{"n": n, "x": object() if why == "unwritable" else 1} for n in range(8)]
    assert compile_variants(kernel, asked) == 0  # type: ignore[arg-type]
    assert shares == []

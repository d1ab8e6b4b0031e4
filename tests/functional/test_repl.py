"""The loop, line by line."""

from __future__ import annotations

from tawa.functional.language import CheckedModule, core
from tawa.functional.repl import Repl


def evaluate(module: CheckedModule, name: str) -> str | None:
    return f"value of {name}" if module.schemes[name].variables == () else None


def test_session():
    repl = Repl(core(), evaluate)
    assert repl.feed("def f x = (x, 1)") == "f : 'a -> ('a, int)"
    assert repl.feed("f true") == "value of it\n: (bool, int)"
    assert repl.feed(":type f") == ": 'a -> ('a, int)"
    assert repl.feed("def f x = x + 1") == "f : int -> int"
    assert repl.feed(":show") == "def f x = x + 1"
    assert "UnboundName" in (repl.feed("def g x = h x") or "")
    assert repl.feed(":show") == "def f x = x + 1"
    assert "there is no command :x" in (repl.feed(":x") or "")
    assert ":quit" in (repl.feed(":help") or "")
    assert repl.feed(":reset") == ""
    assert "UnboundName" in (repl.feed("f 1") or "")
    assert repl.feed(":quit") is None


def test_run_ends_with_the_input():
    lines = iter(["1 + 1"])
    written: list[str] = []

    def read(prompt: str) -> str:
        assert prompt == "core> "
        for line in lines:
            return line
        raise EOFError

    Repl(core(), evaluate).run(read, written.append)
    assert written == ["value of it\n: int"]

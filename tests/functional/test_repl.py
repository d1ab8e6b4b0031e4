"""The loop, line by line."""

from __future__ import annotations

from pathlib import Path

from tawa.functional.language import CheckedModule, core
from tawa.functional.repl import Repl


def evaluate(module: CheckedModule, name: str) -> str | None:
    return f"value of {name}" if module.schemes[name].variables == () else None


def test_session():
    repl = Repl(core(), evaluate)
    assert repl.feed("def f x = (x, 1)") == "f : 'a -> ('a, int)"
    assert repl.feed("f true") == "value of expression'\n: (bool, int)"
    assert repl.feed(":type f") == ": 'a -> ('a, int)"
    assert repl.feed("def f x = x + 1") == "f : int -> int"
    assert repl.feed(":show") == "def f x = x + 1"
    assert "UnboundName" in (repl.feed("def g x = h x") or "")
    assert repl.feed(":show") == "def f x = x + 1"
    assert "there is no command :x" in (repl.feed(":x") or "")
    assert ":quit" in (repl.feed(":help") or "")
    assert repl.feed(":reset") == ""
    assert "UnboundName" in (repl.feed("f 1") or "")
    assert repl.feed("let a = 2") == "a : int"
    assert repl.feed(":t a + 1") == ": int"
    assert "nothing is called `it`" in (repl.feed("it") or "")
    assert repl.feed(":quit") is None


def test_errors_show_what_was_typed():
    repl = Repl(core(), evaluate)
    assert "1 | " not in (repl.feed("1 + true") or "")
    assert " | 1 + true\n" in (repl.feed("1 + true") or "")


def test_load(tmp_path: Path):
    file = tmp_path / "two.ml"
    file.write_text("# Two.\ndef one x =\n  x + 1\n\ndef two x = one (one x)\n")
    repl = Repl(core(), evaluate)
    assert repl.feed(f":load {file}") == "one : int -> int\ntwo : int -> int"
    assert repl.feed("def two x = x") == "two : 'a -> 'a"
    assert "can't be read" in (repl.feed(":load nowhere.ml") or "")


def test_an_input_goes_on_where_it_ends_too_early():
    lines = iter(["def f x =", "  x +", "  1", "f 2", "1 +", ""])
    written: list[str] = []

    def read(prompt: str) -> str:
        for line in lines:
            return line
        raise EOFError

    Repl(core(), evaluate).run(read, written.append)
    assert written[:2] == ["f : int -> int", "value of expression'\n: int"]
    assert "unexpected end of the text" in written[2]


def test_run_ends_with_the_input():
    lines = iter(["1 + 1"])
    written: list[str] = []

    def read(prompt: str) -> str:
        assert prompt == "core> "
        for line in lines:
            return line
        raise EOFError

    Repl(core(), evaluate).run(read, written.append)
    assert written == ["value of expression'\n: int"]

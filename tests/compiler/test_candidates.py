"""Which texts the compiler has assembled: none twice, none that must spill as another did."""

from __future__ import annotations

from tawa.candidates import Tried


def text(*kept: int, body: str = "x") -> str:
    """A kernel whose loading roles keep so many registers."""
    return body + "".join(f"set_registers_down<{count}>();" for count in kept)


def test_a_text_is_assembled_once():
    tried = Tried()
    tried.add(text(40))
    assert tried.has(text(40))
    assert not tried.has(text(40, body="y"))


def test_fewer_registers_for_loading_roles_alone_do_not_help():
    tried = Tried()
    tried.add(text(40, 40))
    assert tried.has(text(24, 40))
    assert not tried.has(text(56, 40))
    assert not tried.has(text(56, 24))

"""What shows on a terminal that something takes its time."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from tawa.driver import progress as shown
from tawa.driver.progress import progress


class Terminal(io.StringIO):
    """Standard error, perhaps of a terminal."""

    def __init__(self, is_one: bool) -> None:
        super().__init__()
        self.is_one = is_one

    def isatty(self) -> bool:
        return self.is_one


class Status:
    """Stands for the line on a terminal."""

    made: list[Status] = []

    def __init__(self, text: str) -> None:
        self.said, self.running = [text], False
        Status.made.append(self)

    def start(self) -> None:
        self.running = True

    def update(self, text: str) -> None:
        self.said.append(text)

    def stop(self) -> None:
        self.running = False


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The lines that are made, on a terminal or not."""
    import rich.console

    monkeypatch.setattr(Status, "made", [])
    monkeypatch.setattr(rich.console.Console, "status", lambda _, text: Status(text))

    def on(is_one: bool) -> list[Status]:
        monkeypatch.setattr(sys, "stderr", Terminal(is_one))
        return Status.made

    return on


def test_nothing_is_written_to_a_pipe(lines: Any) -> None:
    made = lines(False)
    with progress("work") as say:
        say("half")
    assert made == []
    assert not shown._SHOWING.locked()


def test_a_terminal_has_one_line(lines: Any) -> None:
    made = lines(True)
    with progress("work") as say:
        say("half")
        assert shown._SHOWING.locked()
        with progress("more") as other:
            other("all")
        assert shown._SHOWING.locked(), "who has no line does not end another's"
    assert [status.said for status in made] == [["work", "work: half"]]
    assert not shown._SHOWING.locked()
    with progress("again"):
        pass
    assert len(made) == 2


def test_the_line_ends_where_the_work_fails(lines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = lines(True)
    monkeypatch.setattr(shown, "PROGRESS_SECONDS", 0.0)
    with pytest.raises(ValueError, match="no"), progress("work"):
        raise ValueError("no")
    assert not made[0].running
    assert not shown._SHOWING.locked()

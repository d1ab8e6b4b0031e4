"""Tracebacks that end in the user's code.

An error of Tawa's shows the user's line itself, so the frames of the compiler that it came through
tell a user nothing. Functions that users call are entries: an error of Tawa's leaves them with the
frames of user's code alone, wherever it is shown. `TAWA_TRACEBACK=1` keeps all frames.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from types import FrameType, FunctionType, TracebackType
from typing import ParamSpec, TypeVar, cast

from tawa.base.errors import TawaError
from tawa.base.knobs import TRACEBACK
from tawa.base.source import Span

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)

PACKAGE = str(Path(__file__).parents[1])


def entry(function: Callable[P, R]) -> Callable[P, R]:
    """A function that users call: errors of Tawa's leave it without frames of the compiler."""

    @wraps(function)
    def entered(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TawaError as error:
            if error.span is None:
                error.span = users_place()
            hide_own_frames(error)
            raise  # as it is here: it adds no frame of this function
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                error.__traceback__ = None  # the call itself is wrong: its place is the caller's
            raise

    return entered


def entries(cls: C) -> C:
    """A class that users use: its public methods, and calls of its objects, are entries."""
    for name, value in list(vars(cls).items()):
        if isinstance(value, FunctionType) and (not name.startswith("_") or name in SPECIAL):
            setattr(cls, name, entry(value))
        elif isinstance(value, classmethod | staticmethod) and (
            not name.startswith("_") or name in SPECIAL
        ):
            inner = cast("Callable[..., object]", value.__func__)  # pyright: ignore[reportUnknownMemberType]
            kind = classmethod if isinstance(value, classmethod) else staticmethod
            setattr(cls, name, kind(entry(inner)))
        elif isinstance(value, property) and not name.startswith("_") and value.fget is not None:
            setattr(cls, name, property(entry(value.fget), value.fset, value.fdel, value.__doc__))
    return cls


SPECIAL = (
    "__new__",
    "__init__",
    "__post_init__",
    "__call__",
    "__getitem__",
    "__enter__",
    "__exit__",
)
"""Methods that users call without naming them."""


def hide_own_frames(error: BaseException) -> None:
    """Leave only frames of user's code in an error, and only causes that came through such.

    To be called where the error is caught and raised again by a `raise` without an argument, which
    adds no frame.
    """
    if TRACEBACK.get():
        return
    error.__traceback__ = users_part(error.__traceback__)
    for link in ("__cause__", "__context__"):
        before = cast("BaseException | None", getattr(error, link))
        if before is None:
            continue
        hide_own_frames(before)
        if before.__traceback__ is None:
            suppressed = error.__suppress_context__
            setattr(error, link, None)  # a cause that is set suppresses the context
            error.__suppress_context__ = suppressed and error.__cause__ is not None


def users_part(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this package and of libraries."""
    frames: list[TracebackType] = []
    while traceback is not None:
        if is_users(traceback.tb_frame):
            frames.append(traceback)
        traceback = traceback.tb_next
    kept: TracebackType | None = None
    for part in reversed(frames):
        kept = TracebackType(kept, part.tb_frame, part.tb_lasti, part.tb_lineno)
    return kept


def is_users(frame: FrameType) -> bool:
    """Whether a frame runs the user's code: neither Tawa's, nor a library's, nor made by those."""
    file = frame.f_code.co_filename
    if not is_users_file(file):
        return False
    module = str(frame.f_globals.get("__name__", ""))
    return not (file == "<string>" and module.startswith("tawa."))  # what `dataclass` makes


def is_users_file(file: str) -> bool:
    """Whether a file is neither this package's nor a library's."""
    return not file.startswith((PACKAGE, "<tawa", "<frozen", *libraries()))


@cache
def libraries() -> tuple[str, ...]:
    """The folders of Python's own modules, of what is installed, and of its commands."""
    import sysconfig  # reads a file; only errors need it

    kinds = "stdlib", "purelib", "platlib", "scripts"
    return tuple(sysconfig.get_path(kind) for kind in kinds)


def users_place() -> Span | None:
    """Where the user's program stands: the innermost call that its own code makes."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and not is_users(frame):
        frame = frame.f_back
    if frame is None:
        return None
    positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    line, end_line, column, end_column = (n if n is not None else 0 for n in positions)
    if not line:
        return None
    return Span(frame.f_code.co_filename, line, column, end_line, end_column)


def stack_level() -> int:
    """The `stacklevel` at which the caller's warning is about the user's line."""
    frame, level = sys._getframe(1), 1  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and not is_users(frame):
        frame, level = frame.f_back, level + 1
    return level

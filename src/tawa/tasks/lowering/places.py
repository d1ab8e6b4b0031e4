"""Errors in kernels that the compiler wrote, shown where the user wrote what they come from."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tawa.base.errors import Note, TawaError
from tawa.base.source import Span
from tawa.base.user_frames import users_place
from tawa.tasks.language.defaults import IN_TREE, where
from tawa.tasks.lowering.generated import MARK
from tawa.tasks.lowering.kernel_text import KernelText, Source

OWN = str(Path(__file__).parents[1])


@contextmanager
def places_of(kernel: KernelText) -> Generator[None]:
    """Let errors of this kernel point at launch statements, with the path in the task tree."""
    try:
        yield
    except TawaError as error:
        relocate(error, kernel)
        raise


def relocate(error: TawaError, kernel: KernelText) -> None:
    """Move an error's places from a kernel's text to the program's.

    An error without a place, or whose place is the call, is about all of the kernel: one of its
    options, for example. One whose place is a leaf's keeps it.
    """
    spans = [error.span, *(note.span for note in error.notes)]
    lines = [s.line for s in spans if s is not None and s.file.startswith(MARK)]
    if not lines and error.span in (None, users_place()):
        error.span = None
    span, instance = _source(kernel, lines[0] if lines else 1)
    if not lines and any(note.text.startswith(IN_TREE) for note in error.notes):
        return
    error.notes = [note for note in error.notes if not _is_ours(note.span)]
    if error.span is None or _is_ours(error.span):
        error.span = span
    else:
        error.notes.append(Note("in this launch", span))
    error.notes.append(Note(where(instance)))


def _source(kernel: KernelText, line: int) -> Source:
    """What a line comes from; the head, which stands for all of it, from its block's record."""
    if line > 1:
        return kernel.sources[min(line - 2, len(kernel.sources) - 1)]
    instance = kernel.scope.instance
    return instance.record.span or kernel.scope.span, instance


def _is_ours(span: Span | None) -> bool:
    return span is not None and span.file.startswith((MARK, OWN))

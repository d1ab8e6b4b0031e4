"""Runs that can be broken off: what they have done is kept in a folder, and they go on from there.

A file has the arrays of one chain, or of one run of SMC, and the key of what it is a part of. It is
replaced as a whole, so there is always one to go on from. The answer has the same bits as without
the interruption.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from tawa.base.user_frames import entries
from tawa.cuppl.cpu.executable import run_key
from tawa.cuppl.cpu.memory import encode_inputs
from tawa.cuppl.elaboration.shared import Elaborated
from tawa.cuppl.typing.errors import BadSetting

__all__ = ["Checkpoint", "Folder", "Place", "checkpoint_of"]

Array = npt.NDArray[Any]


@entries
@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder for what a run has done, and how many seconds pass at least until it is written.

    A run with the same program, data and settings goes on from there; with others it is an error
    (`BadSetting`). Delete the folder to begin anew.
    """

    folder: str | Path
    seconds: float = 30.0
    key: str = ""

    def place(self, name: str) -> Place:
        """Where one chain, or one run, is kept."""
        return Place(Path(self.folder) / f"{name}.npz", self.key, self.seconds)


Folder = str | Path | Checkpoint | None
"""How a caller names a checkpoint, or none."""


@dataclass(slots=True)
class Place:
    """The file of one chain or run."""

    path: Path
    key: str
    seconds: float
    written: float = field(default_factory=time.monotonic)

    def due(self) -> bool:
        """Whether it is time to write."""
        return time.monotonic() - self.written >= self.seconds

    def save(self, arrays: Mapping[str, Array]) -> None:
        """Replace the file. Raises BadSetting where it can't be written."""
        new = self.path.with_suffix(f".{os.getpid()}.new")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with new.open("wb") as file:
                np.savez(file, allow_pickle=False, key=np.array(self.key), **arrays)
            new.replace(self.path)
        except OSError as error:
            raise BadSetting(f"{self.path} can't be written: {error}") from None
        self.written = time.monotonic()

    def load(self) -> dict[str, Array] | None:
        """What was kept; None if there is nothing. Raises BadSetting if it is of another run."""
        if not self.path.is_file():
            return None
        try:
            with self.path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
                found: dict[str, Array] = {name: kept[name] for name in kept.files}
        except (OSError, ValueError, BadZipFile) as error:
            raise BadSetting(
                f"{self.path} can't be read: {error}", hint="delete it to begin anew"
            ) from None
        if str(found.pop("key", "")) != self.key:
            raise BadSetting(
                f"{self.path} is of another run",
                expected="the same program, data, settings and version of Tawa",
                hint="delete it to begin anew, or name another folder",
            )
        return found


class Program(Protocol):
    """A model, as far as a checkpoint depends on it."""

    source: str
    main: str

    @property
    def elaborated(self) -> Elaborated:
        """The program in the core."""
        ...


def checkpoint_of(
    given: Folder, program: Program, data: Mapping[str, Any] | None,
    device: str, settings: tuple[object, ...],
) -> Checkpoint | None:  # fmt: skip
    """A checkpoint for a run with some settings. Raises BadSetting for what can't be one."""
    if given is None:
        return None
    if device != "cpu":
        raise BadSetting("checkpoints are of runs on the CPU", found=f"device={device!r}")
    found = given if isinstance(given, Checkpoint) else Checkpoint(given)
    if not isinstance(found.folder, str | Path) or Path(found.folder).is_file():  # pyright: ignore
        raise BadSetting("`checkpoint` is a folder", found=repr(found.folder))
    if not 0.0 <= found.seconds < float("inf"):
        raise BadSetting("`seconds` must be 0 or more", found=repr(found.seconds))
    image = encode_inputs(program.elaborated, data or {}).at(0)
    key = run_key(program.source, program.main, image.tobytes(), repr(settings))
    return replace(found, key=key)

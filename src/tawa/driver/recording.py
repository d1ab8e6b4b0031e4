"""What a compilation that records its timeline can't start from."""

from __future__ import annotations

from collections.abc import Mapping

from tawa.hopper.recording.instrument import NotInstrumentable


def require_no_text(
    name: str, start: tuple[str, str] | None, override: Mapping[str, str] | None
) -> None:
    """Refuse CUDA text: timestamps are put into the stage before it. Raises NotInstrumentable."""
    if "cu" in {*(override or {}), start[0] if start else ""}:
        raise NotInstrumentable(
            f"{name} can't record its timeline", found="CUDA text given for its `.cu` stage"
        )

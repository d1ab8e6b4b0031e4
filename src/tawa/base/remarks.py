"""What the compiler has to say about its choices: collected by passes, shown by `--explain`."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Remarks:
    """Sentences of one compilation, in order; each names the pass that speaks."""

    lines: list[str] = field(default_factory=list[str])
    spoken: list[str] = field(default_factory=list[str])
    """The sentences with those that were said before."""

    def say(self, speaker: str, text: str) -> None:
        """Add one sentence."""
        line = f"{speaker}: {text}"
        self.spoken.append(line)
        if line not in self.lines:
            self.lines.append(line)

    def __str__(self) -> str:
        return "\n".join(self.lines)

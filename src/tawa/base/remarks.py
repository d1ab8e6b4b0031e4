"""What the compiler has to say about its choices: collected by passes, shown by `--explain`."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Remarks:
    """Sentences of one compilation, in order; each names the pass that speaks."""

    lines: list[str] = field(default_factory=list[str])

    def say(self, speaker: str, text: str) -> None:
        """Add one sentence."""
        line = f"{speaker}: {text}"
        if line not in self.lines:
            self.lines.append(line)

    def add(self, others: Remarks) -> None:
        """Add the sentences of others."""
        self.lines += [line for line in others.lines if line not in self.lines]

    def __str__(self) -> str:
        return "\n".join(self.lines)

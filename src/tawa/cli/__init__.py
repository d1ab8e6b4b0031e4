"""The command `tawa`. Each command imports what it needs when it runs, so that help is quick."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; one of Tawa's errors is printed and ends the process with status 1."""
    from tawa.base.errors import TawaError
    from tawa.base.knobs import TRACEBACK
    from tawa.cli.app import command_line

    show_frames = False
    try:
        show_frames = TRACEBACK.get()
        command_line(sys.argv[1:])()
    except TawaError as error:
        if show_frames:
            raise
        print(error.render(), file=sys.stderr)
        sys.exit(1)

"""The command `tawa`. Each command imports what it needs when it runs, so that help is quick."""

from __future__ import annotations

import os
import sys
from traceback import print_exception

BUG = "this is a problem of Tawa's own: `tawa bug KERNEL` writes a file that shows it"


def main() -> None:
    """Run the command line; one of Tawa's errors is printed and ends the process with status 1."""
    from tawa.base.errors import TawaError
    from tawa.base.knobs import TRACEBACK
    from tawa.cli.app import command_line

    show_frames = False
    try:
        show_frames = TRACEBACK.get()
        command_line(sys.argv[1:])(prog_name="tawa")
    except TawaError as error:
        if show_frames:
            raise
        print(error.render(), file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:  # whoever read has seen enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if show_frames:
            raise
        sys.exit(_unexpected(error))


def _unexpected(error: Exception) -> int:
    """Print an error that is not Tawa's: of the user's file, from there on; else all of it."""
    from tawa.base.user_frames import is_users

    start = error.__traceback__
    while start is not None and not is_users(start.tb_frame):
        start = start.tb_next
    last = start
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    module = "" if last is None else str(last.tb_frame.f_globals.get("__name__", ""))
    users = start is not None and not module.startswith("tawa.")
    print_exception(error.with_traceback(start) if users else error)
    if not users:
        print(BUG, file=sys.stderr)
    return 1

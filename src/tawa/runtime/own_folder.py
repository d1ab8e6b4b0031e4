"""Whether a folder is one's own: nobody else may put files into it, or another in its place.

What is kept on disk is run: machine code, above all. Whoever may write to the cache may run what
they like as its owner.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["others_may_write"]


def others_may_write(folder: Path) -> str | None:
    """Why others may write to a folder, which need not exist yet; None if they may not.

    It and the folders that it lies in have to belong to this user (or to the system) and to be
    written by nobody else, up to the user's home.
    """
    if os.name != "posix":
        return None  # profiles are private there, and modes say nothing
    whole = folder.absolute().resolve()
    home = Path("~").expanduser().resolve()
    for place in (whole, *whole.parents):
        if place == home:
            return _why(place, itself=place == whole)
        why = _why(place, itself=place == whole)
        if why is not None:
            return why
    return None


def _why(place: Path, *, itself: bool) -> str | None:
    try:
        status = place.stat()
    except OSError:
        return None  # made later, by this user
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid not in (os.getuid(), 0):
        return f"{place} belongs to another user"
    if mode & stat.S_ISVTX and not itself:
        return None  # anyone may add to it, none may replace what is there (as in /tmp)
    if mode & stat.S_IWOTH:
        return f"anyone may write to {place}"
    if mode & stat.S_IWGRP and not _alone_in(status.st_gid):
        return f"a group may write to {place}"
    return None


def _alone_in(group: int) -> bool:
    """Whether a group is this user's own, as some systems make one for each user."""
    import grp  # seldom needed, and not on every system
    import pwd

    try:
        user, found = pwd.getpwuid(os.getuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return found.gr_name == user.pw_name and set(found.gr_mem) <= {user.pw_name}

"""The cache on disk, also with several processes and with damaged files."""

from __future__ import annotations

import json
import os
import pickle
import pwd
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tawa
from tawa.runtime.cache import (
    ROOM,
    SPARE,
    UNFINISHED_SECONDS,
    Cache,
    CacheRefused,
    CacheUnwritable,
    _encode,
    content_key,
    default_cache,
)
from tawa.runtime.own_folder import others_may_write

WORKER = """
import random, sys
from pathlib import Path
from tawa.runtime.cache import Cache, content_key

cache, seed = Cache(Path(sys.argv[1]), limit=200_000), int(sys.argv[2])
random.seed(seed)
hits = 0
for step in range(150):
    name = random.randrange(12)
    key = content_key(str(name))
    found = cache.get(key)
    if found is not None:
        hits += 1
        assert found == {"cubin": bytes([name]) * 20_000, "spec": str(name).encode()}, name
    else:
        cache.put(key, {"cubin": bytes([name]) * 20_000, "spec": str(name).encode()})
print(hits)
"""


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None
)
@given(entry=st.dictionaries(st.text(max_size=8), st.binary(max_size=100), max_size=4))
def test_what_was_put_is_got(tmp_path: Path, entry: dict[str, bytes]) -> None:
    key = content_key(repr(entry))
    Cache(tmp_path).put(key, entry)
    assert Cache(tmp_path).get(key) == entry


def test_keys_tell_contents_and_their_split_apart() -> None:
    keys = {content_key("ab", "c"), content_key("a", "bc"), content_key("abc"), content_key()}
    assert len(keys) == 4
    assert content_key("ab", b"c") == content_key("ab", "c")


def test_nothing_is_found_where_nothing_was_put(tmp_path: Path) -> None:
    assert Cache(tmp_path / "absent").get(content_key("x")) is None


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "not json", "other format"])
def test_a_damaged_entry_is_removed_and_can_be_put_again(tmp_path: Path, damage: str) -> None:
    cache, key, entry = Cache(tmp_path), content_key("k"), {"cubin": b"\x7fELF" * 50}
    cache.put(key, entry)
    (path,) = tmp_path.rglob("*.kernel")
    data = path.read_bytes()
    damaged = {
        "cut": data[:-1],
        "flip": data[:-1] + bytes([data[-1] ^ 1]),
        "empty": b"",
        "not json": b"garbage\n" + data,
        "other format": data.replace(b"tawa-cache-", b"gawa-cache-"),
    }
    path.write_bytes(damaged[damage])
    assert cache.get(key) is None
    assert not path.exists()
    cache.put(key, entry)
    assert cache.get(key) == entry


def test_the_entries_used_longest_ago_go_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=3500)
    keys = [content_key(str(number)) for number in range(4)]
    for age, key in enumerate(keys[:3]):
        cache.put(key, {"x": bytes(1000)})
        (path,) = tmp_path.rglob(key + "*")
        os.utime(path, (time.time() - 1000 + age, time.time() - 1000 + age))
    assert cache.get(keys[0]) is not None  # now used last
    cache.put(keys[3], {"x": bytes(1000)})
    assert [cache.get(key) is not None for key in keys] == [True, False, True, True]


@pytest.mark.parametrize(("room", "left"), [(1, 4), (0, 4), (-1, 3)])
def test_what_fits_just_so_stays(tmp_path: Path, room: int, left: int) -> None:
    """Only what is too much makes room for more than itself."""
    cache = Cache(tmp_path)
    for number in range(4):
        cache.put(content_key(str(number)), {"x": bytes(1000)})
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.kernel"))
    Cache(tmp_path, limit=size + room).trim()
    assert len(list(tmp_path.rglob("*.kernel"))) == left


def test_a_full_cache_is_not_looked_through_at_each_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path, limit=100_000)
    walks: list[int] = []
    whole = Cache.trim
    monkeypatch.setattr(Cache, "trim", lambda self: (walks.append(1), whole(self)))  # type: ignore[misc]
    for number in range(400):
        cache.put(content_key(str(number)), {"x": bytes(500)})
    assert len(walks) < 80  # a walk makes room for some entries
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.kernel")) <= 101_000


def test_what_a_dead_process_left_is_removed(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(content_key("a"), {"x": b"1"})
    (entry,) = tmp_path.rglob("*.kernel")
    old, new = entry.parent / "leftover", entry.parent / "being_written"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, time.time() - UNFINISHED_SECONDS - 10))
    cache.put(content_key("a"), {"x": b"2"})  # looks at the folder that it writes to
    assert not old.exists()
    assert new.exists()


def test_processes_share_a_cache_that_is_too_small(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(tmp_path), str(seed)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(4)
    ]
    outputs = [worker.communicate(timeout=300) for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 4, outputs
    assert sum(int(out) for out, _ in outputs) > 0
    Cache(tmp_path, limit=200_000).trim()
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.kernel")) <= 200_000
    assert [path for path in tmp_path.rglob("*") if path.is_file() and not path.suffix] == []


def test_a_cache_that_can_t_be_written_warns(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.warns(CacheUnwritable, match="file"):
        Cache(blocked).put(content_key("a"), {"x": b""})


def test_the_place_is_a_knob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAWA_CACHE_DIR", str(tmp_path / "here"))
    default_cache().put(content_key("a"), {"x": b"1"})
    assert len(list((tmp_path / "here").rglob("*.kernel"))) == 1


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    for folder in (shared, shared / "mine" / "cache"):
        cache = Cache(folder)
        with pytest.warns(CacheRefused, match=f"anyone may write to {shared}.*chmod"):
            assert cache.get(content_key("a")) is None
        cache.put(content_key("a"), {"x": b"1"})  # says it once
        assert not cache.has(content_key("a"))
        assert [p for p in shared.rglob("*") if p.is_file()] == []
    shared.chmod(0o700)
    assert others_may_write(shared) is None


def test_what_stands_before_it_is_not_read(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    cache.put(content_key("a"), {"x": b"1"})
    (tmp_path / "cache").chmod(0o777)
    again = Cache(tmp_path / "link")
    (tmp_path / "link").symlink_to(tmp_path / "cache")
    with pytest.warns(CacheRefused):
        assert again.get(content_key("a")) is None


@pytest.mark.parametrize(
    ("mode", "owner", "why"),
    [
        (0o700, "me", None),
        (0o755, "root", None),
        (0o1777, "root", None),  # /tmp, around one's own folder
        (0o775, "me", "a group"),
        (0o757, "me", "anyone"),
        (0o700, "other", "another user"),
        (0o755, "other", "another user"),
    ],
)
def test_folders_around_it(
    mode: int, owner: str, why: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    around = tmp_path / "around"
    (around / "cache").mkdir(parents=True)
    own = around.stat().st_uid
    uid = {"me": own, "root": 0, "other": own + 1}[owner]
    plain = Path.stat

    def stat(path: Path, **keywords: bool) -> os.stat_result:
        found = plain(path, **keywords)
        if path != around:
            return found
        values = list(found)
        values[0], values[4], values[5] = mode | 0o40000, uid, 12345
        return os.stat_result(values)

    monkeypatch.setattr(Path, "stat", stat)
    found = others_may_write(around / "cache")
    assert (found is None) == (why is None)
    assert why is None or (found is not None and why in found)


def test_a_group_of_one_s_own_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import grp

    own = grp.getgrgid(os.getgid())
    user = pwd.getpwuid(os.getuid())
    os.chown(tmp_path, -1, os.getgid())
    tmp_path.chmod(0o770)
    monkeypatch.setattr(grp, "getgrgid", lambda g: type(own)((user.pw_name, "x", g, [])))
    assert others_may_write(tmp_path) is None
    monkeypatch.setattr(grp, "getgrgid", lambda g: type(own)((user.pw_name, "x", g, ["other"])))
    assert "group" in (others_may_write(tmp_path) or "")


KERNEL = """
import sys, warnings
import numpy as np, tawa, tawa.language as tl
@tawa.jit
def kernel(o, N: tl.constexpr):
    tl.store(o, N)
o = np.zeros(1, np.int32)
kernel[(1,)](o, 7)
from tawa import cuppl
mean = cuppl.model("def main () = if flip 0.5 then 1.0 else 1.0").importance(particles=4).mean()
print(o[0], mean)
"""


def test_compiling_goes_on_without_a_cache(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    done = _run_kernel(tmp_path)
    assert done.stdout == "7 1.0\n", done.stderr
    assert done.stderr.count("CacheRefused") == 1
    assert [p for p in (tmp_path / "cache").rglob("*") if p.is_file()] == []


class Evil:
    def __init__(self, sign: Path) -> None:
        self.sign = sign

    def __reduce__(self) -> Any:
        return open, (str(self.sign), "w")


def test_no_entry_runs_code_and_none_crashes(tmp_path: Path) -> None:
    assert _run_kernel(tmp_path).stdout == "7 1.0\n"
    sign = tmp_path / "owned"
    paths = sorted((tmp_path / "cache").rglob("*.kernel"))
    names = [set(_parts(path)) for path in paths]
    assert len(paths) > 5
    assert any("cubin" in parts for parts in names)
    for bad in (pickle.dumps(Evil(sign)), b"", b"[]", b'{"a": 1}', b'"text"', b"[1,[],[],[5]]"):
        for path in paths:
            payload = dict.fromkeys(_parts(path), bad)
            path.write_bytes(_encode(payload))  # as long and with the digest that it says
        done = _run_kernel(tmp_path)
        assert (done.returncode, done.stdout) == (0, "7 1.0\n"), (bad, done.stderr)
        assert not sign.exists()


def _parts(path: Path) -> dict[str, int]:
    return json.loads(path.read_bytes().partition(b"\n")[0])["parts"]


def _run_kernel(folder: Path) -> subprocess.CompletedProcess[str]:
    script = folder / "kernel.py"
    script.write_text(KERNEL)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment["TAWA_CACHE_DIR"] = str(folder / "cache")
    return subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=120
    )


def test_nothing_in_the_package_reads_pickles() -> None:
    package = Path(tawa.__file__).parent
    users = [
        p
        for p in package.rglob("*.py")
        if re.search(r"\b(pickle|marshal|shelve|dill)\b", p.read_text())
    ]
    assert users == []


def test_the_folder_is_one_s_own(tmp_path: Path) -> None:
    Cache(tmp_path / "around" / "cache").put(content_key("a"), {"x": b"1"})
    assert (tmp_path / "around" / "cache").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("over", [0, 1, 1000])
def test_room_is_made_for_some_entries_at_once(tmp_path: Path, over: int) -> None:
    """If there is too much, a part of the limit is free afterwards, and no more than need be."""
    cache = Cache(tmp_path)
    for number in range(64):
        cache.put(content_key(str(number)), {"x": bytes(900)})
    sizes = [path.stat().st_size for path in tmp_path.rglob("*.kernel")]
    full = Cache(tmp_path, limit=sum(sizes) - over)
    full.trim()
    left = len(list(tmp_path.rglob("*.kernel")))
    free = full.limit - left * sizes[0]
    assert (left == 64) is (over == 0)
    assert not over or free >= full.limit // SPARE > free - sizes[0]


def test_room_that_is_just_enough(tmp_path: Path) -> None:
    """Entries go until the rest takes what it may, to the byte."""
    for number in range(64):
        Cache(tmp_path).put(content_key(str(number)), {"x": bytes(900)})
    (size,) = {path.stat().st_size for path in tmp_path.rglob("*.kernel")}
    limit = next(n for n in range(60 * size, 64 * size) if (n - n // SPARE) % size == 0)
    Cache(tmp_path, limit=limit).trim()
    assert len(list(tmp_path.rglob("*.kernel"))) * size == limit - limit // SPARE


def test_room_is_used_up_to_the_last_byte(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    fits = cache._fits  # pyright: ignore[reportPrivateUsage]
    assert not fits(0)  # nobody has looked yet
    (tmp_path / ROOM).write_text("100")
    assert [fits(60), fits(40), fits(0), fits(1), fits(0)] == [True, True, True, False, False]
    assert (tmp_path / ROOM).read_text() == "-1"
    (tmp_path / ROOM).write_text("?")
    assert not fits(0)

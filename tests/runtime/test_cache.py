"""The cache on disk, also with several processes and with damaged files."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tawa.runtime.cache import (
    UNFINISHED_SECONDS,
    Cache,
    CacheUnwritable,
    content_key,
    default_cache,
)

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

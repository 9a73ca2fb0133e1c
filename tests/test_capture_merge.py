"""Several files, folders, and their order as one stream."""

from __future__ import annotations

import gzip
import heapq

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import captures as make
from captures import Record
from ippath.capture import CaptureError, open_captures, read_batch


def write(folder, name: str, times: list[int], *, packed: bool = False, size: int = 0) -> str:
    """A capture whose packets say where they come from: `name number`."""
    records = [Record(f"{name} {k}".encode().ljust(size), t) for k, t in enumerate(times)]
    raw = make.pcap(records, magic=make.NANOSECONDS)
    path = folder / f"{name}.pcap"
    path.write_bytes(gzip.compress(raw, 1) if packed else raw)
    return str(path)


def stream(paths, **options) -> list[tuple[int, str, int]]:
    """(frame, packet, time) of all packets."""
    found = []
    with open_captures(paths, **options) as captures:
        for batch in captures:
            assert len(batch) >= 1
            for frame, packet, time in zip(batch.frame_numbers, batch, batch.time_ns, strict=True):
                found.append((int(frame), packet.decode().strip(), int(time)))
    assert captures.packets_read == len(found)
    assert captures.bytes_read == captures.bytes_total
    return found


CASES = [
    # name, times of a, times of b, order
    ("interleaved", [1, 4, 5], [2, 3, 6], "a0 b0 b1 a1 a2 b2"),
    ("one after the other", [5, 6], [1, 2], "b0 b1 a0 a1"),
    ("equal times: as named", [1, 1, 2], [1, 2, 2], "a0 a1 b0 a2 b1 b2"),
    ("a file keeps its own order", [5, 1, 9], [2, 6], "b0 a0 a1 b1 a2"),
    ("one is empty", [], [3, 4], "b0 b1"),
    ("within", [1, 9], [3, 4], "a0 b0 b1 a1"),
]


@pytest.mark.parametrize("chunk", [1, 2, 100])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("first", "second", "order"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_order(tmp_path, first, second, order, packed, chunk):
    paths = [write(tmp_path, "a", first, packed=packed), write(tmp_path, "b", second)]
    found = stream(paths, chunk=chunk)
    assert [p.replace(" ", "") for _, p, _ in found] == order.split()
    assert [f for f, _, _ in found] == list(range(1, len(found) + 1))


def test_without_merge_files_follow_as_named(tmp_path):
    paths = [write(tmp_path, "a", [5, 6]), write(tmp_path, "b", [1, 2])]
    found = stream(paths, merge=False)
    assert [(f, p) for f, p, _ in found] == [(1, "a 0"), (2, "a 1"), (3, "b 0"), (4, "b 1")]


@given(
    files=st.lists(st.lists(st.integers(0, 12), max_size=12), min_size=1, max_size=5),
    chunk=st.integers(1, 9),
)
@settings(max_examples=60)
def test_merge_equals_taking_the_earliest_head(tmp_path_factory, files, chunk):
    """The rule in one line: always the head with the least (time, place of the file)."""
    folder = tmp_path_factory.mktemp("merge")
    paths = [write(folder, f"f{k}", times) for k, times in enumerate(files)]
    heads = [(times[0], k, 0) for k, times in enumerate(files) if times]
    heapq.heapify(heads)
    expected = []
    while heads:
        time, k, row = heapq.heappop(heads)
        expected.append((len(expected) + 1, f"f{k} {row}", time))
        if row + 1 < len(files[k]):
            heapq.heappush(heads, (files[k][row + 1], k, row + 1))
    assert stream(paths, chunk=chunk) == expected


def test_runs_of_one_file_are_not_copied(tmp_path):
    paths = [write(tmp_path, "a", list(range(600))), write(tmp_path, "b", list(range(1000, 1500)))]
    with open_captures(paths, chunk=100) as captures:
        sizes = [batch.data.shape[0] for batch in captures]
    assert set(sizes) == {(tmp_path / f"{n}.pcap").stat().st_size for n in "ab"}


def test_copied_batches_stay_small(tmp_path):
    """Interleaved big packets: arenas of 16 MB, whatever `chunk` says."""
    paths = [
        write(tmp_path, name, [2 * k + i for k in range(80)], size=200_000)
        for i, name in enumerate("ab")
    ]
    with open_captures(paths) as captures:
        batches = list(captures)
    assert max(b.data.shape[0] for b in batches) <= 17 << 20
    found = [p.decode().strip() for b in batches for p in b]
    assert found == [f"{n} {k}" for k in range(80) for n in "ab"]


def test_many_files_are_open_only_while_needed(tmp_path):
    """A rotated capture of more files than a process may have open."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        for k in range(150):
            write(tmp_path, f"r{k:03}", [10 * k, 10 * k + 5], packed=k % 2 == 0)
        found = stream(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [p for _, p, _ in found] == [f"r{k:03} {i}" for k in range(150) for i in range(2)]


def test_link_types_interfaces_and_comments_through_a_merge(tmp_path):
    one = make.section() + make.interface(1, name="eth0", resolution=9)
    one += make.enhanced(b"eth 0", 1, comments=["first"]) + make.enhanced(b"eth 1", 5, flags=2)
    two = make.section() + make.interface(101, name="tun0", resolution=9)
    two += make.interface(1, name="eth0")
    two += make.enhanced(b"tun 0", 2) + make.enhanced(b"tun 1", 3, comments=["fourth"][:0])
    two += make.enhanced(b"tun 2", 4, comments=["fourth"], wire_length=99)
    (tmp_path / "one").write_bytes(one)
    (tmp_path / "two").write_bytes(two)
    batch = read_batch(tmp_path)
    assert list(batch) == [b"eth 0", b"tun 0", b"tun 1", b"tun 2", b"eth 1"]
    assert [batch.interfaces[d] for d in batch.device] == ["eth0", "tun0", "tun0", "tun0", "eth0"]
    assert batch.link_type.tolist() == [1, 101, 101, 101, 1]
    assert batch.wire_length.tolist() == [5, 5, 5, 99, 5]
    assert batch.direction.tolist() == [0, 0, 0, 0, 2]
    assert batch.comments == {1: "first", 4: "fourth"}
    with open_captures(tmp_path, chunk=1) as captures:
        seen = {}
        for batch in captures:
            assert set(batch.comments) <= set(batch.frame_numbers.tolist())
            seen |= batch.comments
    assert seen == captures.comments == {1: "first", 4: "fourth"}


def test_an_early_end_of_one_file_does_not_stop_the_others(tmp_path):
    paths = [write(tmp_path, "a", [1, 3, 5]), write(tmp_path, "b", [2, 4, 6])]
    raw = (tmp_path / "a.pcap").read_bytes()
    (tmp_path / "a.pcap").write_bytes(raw[:-1])
    with open_captures(paths) as captures:
        found = [p.decode() for b in captures for p in b]
    assert found == ["a 0", "b 0", "a 1", "b 1", "b 2"]
    (ending,) = captures.endings
    assert ending.path == paths[0]
    assert "truncated packet" in ending.why


# --- folders ----------------------------------------------------------------------------------------


def test_a_folder_gives_its_captures(tmp_path):
    write(tmp_path, "b", [2])
    write(tmp_path, "a", [1], packed=True)
    (tmp_path / "notes.txt").write_text("about these captures")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / ".hidden.pcap").write_bytes(make.pcap([Record(b"hidden")]))
    (tmp_path / "inside").mkdir()
    with open_captures(tmp_path) as captures:
        assert [p for b in captures for p in b] == [b"a 0", b"b 0"]
    assert captures.skipped == [str(tmp_path / "empty"), str(tmp_path / "notes.txt")]


def test_folders_without_captures(tmp_path):
    with pytest.raises(CaptureError, match="this folder has no files"):
        open_captures(tmp_path)
    (tmp_path / "notes.txt").write_text("about")
    with pytest.raises(CaptureError, match="no captures among the 1 files of this folder"):
        open_captures(tmp_path)


def test_a_named_file_that_is_no_capture_stops_at_once(tmp_path):
    good = write(tmp_path, "a", [1])
    (tmp_path / "text").write_text("not packets")
    with pytest.raises(CaptureError, match="not a capture"):
        open_captures([good, tmp_path / "text"])


def test_wrong_arguments(tmp_path):
    with pytest.raises(ValueError, match="chunk is 0"):
        open_captures(write(tmp_path, "a", [1]), chunk=0)
    with pytest.raises(CaptureError, match="named more than once"):
        open_captures(["-", "-"])

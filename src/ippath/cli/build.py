"""Compiled or plain: which build of the packet path a command uses, and what it tells meanwhile.

Compiling takes most of a minute when it is done for the first time; a short capture is through the
uncompiled path long before.  Both give the same verdicts, since they are the same source.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from ippath.netns import Netns

FEW = 2000  # packets that the uncompiled path takes about as long for as starting the compiled one
FEW_WHEN_COLD = (
    20_000  # packets that it takes about ten seconds for, when there is no compiled code
)
COMPILE_SECONDS = 50  # measured on one core of a 2-core virtual machine
_SMALL_COMPRESSED = 100_000  # bytes of a file whose packets are not counted, taken to be few


def choose_build(
    paths: Sequence[str],
    limit: int | None = None,
    few: int = FEW,
    few_when_cold: int = FEW_WHEN_COLD,
    entry: str = "receive_burst",
) -> None:
    """Choose the uncompiled path for few packets; must run before the path is imported.

    `limit` is the number of packets that will be used at most, `entry` the compiled function that
    they need.  A set NUMBA_DISABLE_JIT wins.
    """
    if "ippath.jit" in sys.modules or "NUMBA_DISABLE_JIT" in os.environ:
        return

    def at_most(number: int) -> bool:
        if limit is not None and limit <= number:
            return True
        count = count_packets(paths, number + 1)
        return count is not None and count <= number

    if at_most(few) or (at_most(few_when_cold) and not has_compiled_code(entry)):
        os.environ["NUMBA_DISABLE_JIT"] = "1"


def has_compiled_code(entry: str = "receive_burst") -> bool:
    """Whether the packet path was compiled before, from these very sources."""
    import runpy

    import ippath

    # ippath.jit decides once, when it is imported, how the path is built: so ask a copy of it
    folder = Path(ippath.__file__).parent
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    try:
        jit = runpy.run_path(str(folder / "jit.py"))
        return any(jit["cache_folder"]().rglob(f"*{entry}*.nbc"))
    except (OSError, ImportError):
        return False
    finally:
        del os.environ["NUMBA_DISABLE_JIT"]


def count_packets(paths: Sequence[str], most: int) -> int | None:
    """Packets in the captures, counting no further than `most`; None if that cannot be told."""
    total = 0
    for path in _files(paths):
        if total >= most:
            return most
        count = _count_file(path, most - total)
        if count is None:
            return None
        total += count
    return min(total, most)


def _files(paths: Sequence[str]) -> Iterator[Path]:
    for name in paths:
        path = Path(name)
        if name != "-" and path.is_dir():
            yield from sorted(p for p in path.iterdir() if p.is_file())
        else:
            yield path


def _count_file(path: Path, most: int) -> int | None:
    try:
        if not path.is_file():
            return None  # standard input, a pipe, or an error that the reader will report
        with open(path, "rb") as file:
            head = file.read(6)
        if head[:2] == b"\x1f\x8b":
            import gzip

            with gzip.open(path) as unpacked:
                return _count_stream(cast(BinaryIO, unpacked), most)
        if head == b"\xfd7zXZ\x00":
            import lzma

            with lzma.open(path) as unpacked:
                return _count_stream(cast(BinaryIO, unpacked), most)
        if head[:4] == b"\x28\xb5\x2f\xfd":
            return 0 if path.stat().st_size <= _SMALL_COMPRESSED else None
        with open(path, "rb") as file:
            return _count_stream(file, most)
    except Exception:  # damaged compression: the reader will say what is wrong
        return 0


def _count_stream(file: BinaryIO, most: int) -> int:
    head = file.read(24)
    if head[:4] == b"\x0a\x0d\x0d\x0a":
        return _count_pcapng(file, head, most)
    order = {
        b"\xd4\xc3\xb2\xa1": "little", b"\x4d\x3c\xb2\xa1": "little",
        b"\xa1\xb2\xc3\xd4": "big", b"\xa1\xb2\x3c\x4d": "big",
    }.get(head[:4])  # fmt: skip
    count = 0
    while order and count < most:
        record = file.read(16)
        if len(record) < 16:
            break
        size = int.from_bytes(record[8:12], order)  # type: ignore[arg-type]
        if size > 1 << 26:
            break
        file.seek(size, 1)
        count += 1
    return count


def _count_pcapng(file: BinaryIO, head: bytes, most: int) -> int:
    order, block, count = "little", head[:12], 0
    file.seek(12)
    while count < most and len(block) == 12:
        if block[:4] == b"\x0a\x0d\x0d\x0a":
            order = "little" if block[8:12] == b"\x4d\x3c\x2b\x1a" else "big"
        kind = int.from_bytes(block[:4], order)  # type: ignore[arg-type]
        size = int.from_bytes(block[4:8], order)  # type: ignore[arg-type]
        if not 12 <= size <= 1 << 26:
            break
        count += kind in (2, 3, 6)  # packet, simple packet and enhanced packet blocks
        file.seek(size - 12, 1)
        block = file.read(12)
    return count


@contextmanager
def compiling(quiet: bool, entry: str = "receive_burst") -> Iterator[None]:
    """Say on standard error that compiling goes on, if it does, with the time on a terminal."""
    from ippath import jit

    if quiet or not jit.COMPILED or has_compiled_path(entry):
        yield
        return
    text = f"compiling the packet path (once, about {COMPILE_SECONDS} s)"
    if not sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(text, total=None)
        yield


def ready(netns: Netns) -> None:
    """Have the receive path compiled (or loaded), so that the time of packets is theirs alone."""
    from ippath import jit

    if not jit.COMPILED:
        return
    import numpy as np

    from ippath.batch import PacketBatch
    from ippath.rx.burst import receive_burst
    from ippath.tables import V_COLUMNS

    none = PacketBatch.from_packets([])
    receive_burst(
        netns._tables_handle.value, netns._state_handle.value, none.data, none.offset,
        none.length, none.wire_length, none.time_ns, none.link_type, none.device,
        none.direction, none.mark, np.zeros((0, V_COLUMNS), np.int32), 1, 0, 0, None,
    )  # fmt: skip


def has_compiled_path(entry: str = "receive_burst") -> bool:
    """As `has_compiled_code`, when `ippath.jit` is imported already."""
    from ippath import jit

    try:
        return any(jit.cache_folder().rglob(f"*{entry}*.nbc"))
    except OSError:
        return False

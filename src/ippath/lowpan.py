"""6LoWPAN for programs: IPv6 packets in, IEEE 802.15.4 frames out.

    sender = LowpanSender(pan_id=0xABCD, contexts={0: "2001:db8::/64"})
    frames = sender.send(packet, source=0x0212_4B00_0000_0001, target=0x0212_4B00_0000_0002)

The way back is `ippath.Netns` with a lowpan device, or `ippath.Defragmenter`.
"""

from __future__ import annotations

import numpy as np

from ippath import tables as T
from ippath.batch import PacketBatch
from ippath.defrag import bare_state, prefixes
from ippath.fib.build import halves
from ippath.frag.arena import set_contexts
from ippath.handles import state_handle
from ippath.tx import lowpan

BROADCAST = (1 << 64) - 1
HEADER = 40  # of IPv6, bytes


class LowpanSender:
    """Compresses headers and cuts packets into fragments as Linux does (RFC 4944, RFC 6282).

    `contexts` are prefixes by number, 0 to 15, which both sides know.  With `strict` the kernel's
    choices throughout, without it a link-local destination is always compressed.  Frames are counted
    and datagrams tagged from 0 on; frames have no check sequence (link type 230).
    """

    def __init__(
        self, *, pan_id: int = 0xFFFF, contexts: dict[int, str] | None = None, strict: bool = True
    ):
        self.pan_id = pan_id
        self._state = bare_state(0, False)._replace(
            out=np.zeros((T.MOST_FRAGMENTS, T.OUT_COLUMNS), np.int64),
        )
        self._state.lw[T.LW_STRICT] = int(strict)
        set_contexts(self._state.context, prefixes(contexts or {}))
        self._handle = state_handle(self._state)

    def send(self, packet: bytes, source: int, target: int = BROADCAST) -> list[bytes]:
        """The frames that carry an IPv6 packet between two EUI-64s; the default target is all.

        Raises ValueError for a packet that is not IPv6, or too long for 6LoWPAN (2,047 bytes).
        """
        if len(packet) < HEADER or packet[0] >> 4 != 6:
            raise ValueError(f"no IPv6 packet: {packet[:8].hex()} ({len(packet)} bytes)")
        batch, state = PacketBatch.from_packets([packet]), self._state
        lowpan.send_packets(
            self._handle.value, batch.data, batch.offset, batch.length, self.pan_id,
            halves(source)[1], halves(target)[1],
        )  # fmt: skip
        rows = state.out[: state.misc[T.MISC_OUT_ROWS]]
        raw = state.out_data[: state.misc[T.MISC_OUT_BYTES]].tobytes()
        state.misc[T.MISC_OUT_ROWS] = state.misc[T.MISC_OUT_BYTES] = 0
        if not len(rows):
            raise ValueError(f"a packet of {len(packet)} bytes is too long for 6LoWPAN")
        return [raw[at : at + size] for at, size in rows[:, [T.OUT_OFFSET, T.OUT_LENGTH]].tolist()]

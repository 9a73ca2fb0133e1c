"""Counters under the names that `nstat` prints: one list, one index each.

Compiled code uses the constants `M_…`; everything that shows counters reads `COUNTERS`.
"""

from __future__ import annotations

_IP = """InReceives InHdrErrors InAddrErrors ForwDatagrams InUnknownProtos InDiscards InDelivers
OutRequests OutDiscards OutNoRoutes ReasmTimeout ReasmReqds ReasmOKs ReasmFails FragOKs FragFails
FragCreates OutTransmits"""
_IPEXT = """InNoRoutes InTruncatedPkts InMcastPkts OutMcastPkts InBcastPkts OutBcastPkts InOctets
OutOctets InMcastOctets OutMcastOctets InBcastOctets OutBcastOctets InCsumErrors InNoECTPkts
InECT1Pkts InECT0Pkts InCEPkts ReasmOverlaps"""
_IP6 = """InReceives InHdrErrors InTooBigErrors InNoRoutes InAddrErrors InUnknownProtos
InTruncatedPkts InDiscards InDelivers OutForwDatagrams OutRequests OutDiscards OutNoRoutes
ReasmTimeout ReasmReqds ReasmOKs ReasmFails FragOKs FragFails FragCreates InMcastPkts OutMcastPkts
InOctets OutOctets InMcastOctets OutMcastOctets InBcastOctets OutBcastOctets InNoECTPkts InECT1Pkts
InECT0Pkts InCEPkts OutTransmits"""
_UDP = """InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors
IgnoredMulti MemErrors"""
_ICMP = """InMsgs InErrors InCsumErrors InDestUnreachs InTimeExcds InParmProbs InSrcQuenchs
InRedirects InEchos InEchoReps InTimestamps InTimestampReps InAddrMasks InAddrMaskReps OutMsgs
OutErrors OutRateLimitGlobal OutRateLimitHost OutDestUnreachs OutTimeExcds OutParmProbs
OutSrcQuenchs OutRedirects OutEchos OutEchoReps OutTimestamps OutTimestampReps OutAddrMasks
OutAddrMaskReps"""
_ICMP6 = """InMsgs InErrors OutMsgs OutErrors InCsumErrors OutRateLimitHost InDestUnreachs
InPktTooBigs InTimeExcds InParmProblems InEchos InEchoReplies InGroupMembQueries
InGroupMembResponses InGroupMembReductions InRouterSolicits InRouterAdvertisements
InNeighborSolicits InNeighborAdvertisements InRedirects InMLDv2Reports OutDestUnreachs
OutPktTooBigs OutTimeExcds OutParmProblems OutEchos OutEchoReplies OutNeighborSolicits
OutNeighborAdvertisements OutRedirects"""


def _prefixed(prefix: str, names: str) -> list[str]:
    return [prefix + name for name in names.split()]


COUNTERS: tuple[str, ...] = tuple(
    _prefixed("Ip", _IP)
    + _prefixed("IpExt", _IPEXT)
    + ["TcpExtIPReversePathFilter"]
    + _prefixed("Icmp", _ICMP)
    + _prefixed("Udp", _UDP)
    + _prefixed("UdpLite", _UDP)
    + _prefixed("Ip6", _IP6)
    + _prefixed("Icmp6", _ICMP6)
    + _prefixed("Udp6", _UDP)
    + _prefixed("UdpLite6", _UDP)
    # IcmpMsg*/Icmp6* by type: one slot for each of the 256 types, in and out
    + [f"IcmpMsgInType{t}" for t in range(256)]
    + [f"IcmpMsgOutType{t}" for t in range(256)]
    + [f"Icmp6InType{t}" for t in range(256)]
    + [f"Icmp6OutType{t}" for t in range(256)]
)

COUNTER_INDEX: dict[str, int] = {name: k for k, name in enumerate(COUNTERS)}

# the same numbers as module constants, for compiled code: M_IpInReceives and so on
globals().update({f"M_{name}": k for name, k in COUNTER_INDEX.items()})


def __getattr__(name: str) -> int:  # tells type checkers that M_* exist; they are set above
    raise AttributeError(name)

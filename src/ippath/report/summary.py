"""A replay in numbers: one object that the terminal report and `--json` both read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ippath.reasons import REASON_NAMES, REASONS

if TYPE_CHECKING:
    from ippath.netns import Netns
    from ippath.report.watch import Watch

MEANINGS = {r.name: r.meaning for r in REASONS}
TOP_DESTINATIONS = 5
LATER = ("FRAG_REASM_TIMEOUT", "FRAG_TOO_FAR")  # why packets are dropped that were held


@dataclass
class Summary:
    """Everything that a replay found; `to_dict` has the stable keys of docs/results.md."""

    packets: int
    bytes: int
    verdicts: dict[str, int]
    reasons: dict[str, int]
    reasons_by_verdict: dict[str, dict[str, int]]
    drop_destinations: dict[str, list[tuple[str, int]]]
    destinations_approximate: bool
    counters: dict[str, int]
    hint: dict[str, int]
    devices: list[dict[str, Any]]
    sockets: list[dict[str, Any]]
    reassembly: dict[str, dict[str, int]]
    switches: dict[str, str]
    unchecked: int
    first_time_ns: int | None
    last_time_ns: int | None
    capture_seconds: float
    seconds: float
    compiled: bool
    captures: list[str] = field(default_factory=list)
    endings: list[dict[str, Any]] = field(default_factory=list)
    host: dict[str, Any] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    interrupted: bool = False

    @property
    def packets_per_second(self) -> float:
        """Packets replayed per second of work, reading and writing included."""
        return self.packets / self.seconds if self.seconds > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data with stable keys, ready for JSON."""
        return {
            "packets": self.packets,
            "bytes": self.bytes,
            "verdicts": self.verdicts,
            "reasons": self.reasons,
            "reasons_by_verdict": self.reasons_by_verdict,
            "drop_destinations": {
                reason: [{"destination": address, "packets": n} for address, n in top]
                for reason, top in self.drop_destinations.items()
            },
            "counters": self.counters,
            "hint": self.hint,
            "switches": self.switches,
            "devices": self.devices,
            "sockets": self.sockets,
            "reassembly": self.reassembly,
            "unchecked": self.unchecked,
            "first_time_ns": self.first_time_ns,
            "last_time_ns": self.last_time_ns,
            "capture_seconds": self.capture_seconds,
            "seconds": round(self.seconds, 6),
            "packets_per_second": round(self.packets_per_second, 1),
            "compiled": self.compiled,
            "captures": self.captures,
            "endings": self.endings,
            "host": self.host,
            "files": self.files,
            "interrupted": self.interrupted,
        }


def summarise(netns: Netns, watch: Watch, seconds: float, compiled: bool) -> Summary:
    """The summary of everything that `netns` received and `watch` saw, in `seconds` of work."""
    from ippath.reasons import VERDICTS

    totals = netns.totals()
    span = watch.span_seconds
    by_verdict = {}
    for code, verdict in enumerate(VERDICTS):
        row = watch.by_reason[code]
        found = {REASON_NAMES[k]: int(row[k]) for k in range(1, len(row)) if row[k]}
        if found:
            by_verdict[verdict] = dict(sorted(found.items(), key=lambda pair: -pair[1]))
    for name in LATER:  # of packets whose rows say `held`
        if totals.reasons.get(name):
            by_verdict.setdefault("dropped", {})[name] = totals.reasons[name]
    reasons = dict(sorted(totals.reasons.items(), key=lambda pair: -pair[1]))
    destinations = {
        name: top
        for name in by_verdict.get("dropped", {})
        if (top := watch.destinations.top(REASON_NAMES.index(name), TOP_DESTINATIONS))
    }
    sockets = [
        {"socket": netns.listener_text(k), **counts}
        for k, counts in enumerate(netns.socket_counts())
    ]
    return Summary(
        packets=totals.packets,
        bytes=totals.bytes,
        verdicts=totals.verdicts,
        reasons=reasons,
        reasons_by_verdict=by_verdict,
        drop_destinations=destinations,
        destinations_approximate=watch.destinations.approximate,
        counters=totals.counters,
        hint=totals.hint,
        devices=[_with_rates(device, span) for device in totals.devices],
        sockets=sockets,
        reassembly=totals.reassembly,
        switches=dict(netns.switches),
        unchecked=watch.unchecked,
        first_time_ns=watch.first_time_ns,
        last_time_ns=watch.last_time_ns,
        capture_seconds=span,
        seconds=seconds,
        compiled=compiled,
    )


def _with_rates(device: dict[str, Any], span: float) -> dict[str, Any]:
    """The device's counts with rates over the capture's own time; 0 where it has no duration."""

    def rate(key: str, factor: int = 1) -> float:
        return round(device[key] * factor / span, 3) if span > 0 else 0.0

    return {
        **device,
        "rx_packets_per_second": rate("rx_packets"),
        "rx_bits_per_second": rate("rx_bytes", 8),
        "tx_packets_per_second": rate("tx_packets"),
        "tx_bits_per_second": rate("tx_bytes", 8),
    }

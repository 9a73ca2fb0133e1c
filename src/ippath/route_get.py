"""`ip route get` asked of a modelled host: the question, and the answer as `ip` prints it.

The answer comes from the compiled path (`ippath.tx.route_get`), one question at a time or millions.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ippath import tables as T
from ippath.config.values import BITS, address_text, table_text
from ippath.fib.build import halves
from ippath.model import ROUTE_TYPES, Route

if TYPE_CHECKING:
    from ippath.netns import Netns

CHUNK = 1 << 16  # questions answered by one call of the path
LEAST_HEX_MARK = 16  # larger marks are printed in hexadecimal
TYPE_NAMES = {value: name for name, value in ROUTE_TYPES.items()}
ERROR_TEXTS = {
    T.ENETUNREACH: "Network is unreachable", T.EHOSTUNREACH: "No route to host",
    T.EACCES: "Permission denied", T.EINVAL: "Invalid argument",
}  # fmt: skip
EMSGSIZE = 90
UDP = 17


class QuestionError(ValueError):
    """A question that no kernel would answer; the message is what `ip` prints."""


@dataclass(frozen=True)
class Question:
    """What `ip route get` asks, but for the destination; addresses are ints."""

    family: int
    source: int | None = None
    iif: str | None = None
    oif: str | None = None
    mark: int = 0
    tos: int = 0
    uid: int | None = None  # of the user who asks; None: root
    protocol: int | None = None
    sport: int = 0
    dport: int = 0


@dataclass(frozen=True)
class Answer:
    """The way to one destination, or an error (kernel: rt_fill_info, rt6_fill_node)."""

    question: Question
    destination: int
    error: int = 0  # errno; 0: there is a way
    type: str = ""
    device: str = ""
    gateway_family: int = 0
    gateway: int = 0
    chosen: int | None = None  # the source that the host would choose
    table: int = T.NONE
    flags: int = 0  # GOT_LOCAL and so on
    route: Route | None = None  # the route that won, or refused
    rule: int = T.NONE  # its row in `Netns.rules`
    uses_route: bool = False  # metrics and so on come from the route
    learned_mtu: int = 0  # 0: nothing was learned of the destination
    learned_lock: bool = False
    expires: int = 0  # seconds that it lasts

    @property
    def error_text(self) -> str:
        """What `ip` prints on standard error; empty if there is a way."""
        if not self.error:
            return ""
        return f"RTNETLINK answers: {error_name(self.error)}"

    def to_dict(self) -> dict[str, Any]:
        """The answer with the keys of `ip -j route get`."""
        return _dict4(self) if self.question.family == 4 else _dict6(self)

    def text(self) -> str:
        """The answer as `ip route get` prints it, spaces at the ends of lines too."""
        return _text4(self) if self.question.family == 4 else _text6(self)


def error_name(error: int) -> str:
    """An errno in the words of the C library, whatever library this machine has."""
    return ERROR_TEXTS.get(error) or os.strerror(error)


def _begin(answer: Answer) -> dict[str, Any]:
    told: dict[str, Any] = {}
    if answer.type != "unicast":
        told["type"] = answer.type
    family, source = answer.question.family, answer.question.source
    told["dst"] = address_text(family, answer.destination)
    if family == 6:
        told["from"] = address_text(6, source or 0)
    elif source:
        told["from"] = address_text(4, source)
    if family == 4 and answer.route is not None and answer.uses_route and answer.route.tos:
        told["tos"] = f"{answer.route.tos:#04x}"
    if answer.gateway_family == family:
        told["gateway"] = address_text(family, answer.gateway)
    elif answer.gateway_family:
        host = address_text(answer.gateway_family, answer.gateway)
        told["via"] = {"family": f"inet{answer.gateway_family}", "host": host}
    told["dev"] = answer.device
    if answer.table not in (T.NONE, 254):
        told["table"] = table_text(answer.table)
    return told


def _metrics(answer: Answer) -> list[dict[str, Any]]:
    route = answer.route
    if route is None or not answer.uses_route:
        return []
    metrics: dict[str, Any] = {}
    if answer.learned_mtu or route.mtu:
        metrics["mtu"] = answer.learned_mtu or route.mtu
    if route.hoplimit:
        metrics["hoplimit"] = route.hoplimit
    return [metrics] if metrics else []


def _dict4(answer: Answer) -> dict[str, Any]:
    told = _begin(answer)
    question = answer.question
    if (
        question.iif is None
        and answer.chosen is not None
        and answer.chosen != (question.source or 0)
    ):
        told["prefsrc"] = address_text(4, answer.chosen)
    # the kernel's flag for groups is the one that `ip` takes for a failed offload
    told["flags"] = ["rt_offload_failed"] if answer.flags & T.GOT_MULTICAST else []
    if question.mark:
        told["mark"] = question.mark
    if question.iif is None or question.uid is not None:
        told["uid"] = question.uid or 0
    told["cache"] = [
        name
        for bit, name in (
            (T.GOT_LOCAL, "local"), (T.GOT_BROADCAST, "brd"), (T.GOT_MULTICAST, "mc"),
            (T.GOT_REDIRECTED, "redirected"), (T.GOT_REDIRECT, "redirect"),
        )
        if answer.flags & bit
    ]  # fmt: skip
    if answer.expires:
        told["expires"] = answer.expires
    if metrics := _metrics(answer):
        told["metrics"] = metrics
    if question.iif is not None:
        told["iif"] = question.iif
    return told


def _dict6(answer: Answer) -> dict[str, Any]:
    told, route = _begin(answer), answer.route
    assert route is not None
    if route.protocol != "boot":
        told["protocol"] = route.protocol
    if answer.chosen is not None:
        told["prefsrc"] = address_text(6, answer.chosen)
    told["metric"] = route.metric
    told["flags"] = []
    if answer.expires:
        told["expires"] = answer.expires
    if metrics := _metrics(answer):
        told["metrics"] = metrics
    if answer.question.iif is not None:
        told["iif"] = answer.question.iif
    told["pref"] = route.preference
    return told


def _head(told: dict[str, Any]) -> list[str]:
    """The words that both families share, in their order."""
    words = [told["type"]] if "type" in told else []
    words.append(told["dst"])
    via = told.get("via")
    gateway = told.get("gateway") or (via and f"{via['family']} {via['host']}")
    for name, value in (
        ("from", told.get("from")), ("tos", told.get("tos")), ("via", gateway), ("dev", told["dev"]),
        ("table", told.get("table")), ("proto", told.get("protocol")), ("src", told.get("prefsrc")),
    ):  # fmt: skip
        if value is not None:
            words += [name, value]
    return words


def _metric_words(answer: Answer, told: dict[str, Any]) -> list[str]:
    words = ["expires", f"{told['expires']}sec"] if "expires" in told else []
    for name, value in (told.get("metrics") or [{}])[0].items():
        own_lock = answer.route is not None and answer.route.mtu_lock
        locked = name == "mtu" and (own_lock or answer.learned_lock)
        words += [name, *(["lock"] if locked else []), str(value)]
    return words


def _text4(answer: Answer) -> str:
    told = answer.to_dict()
    first = [*_head(told), *told["flags"]]
    mark = told.get("mark")
    if mark is not None:
        first += ["mark", f"{mark:#x}" if mark >= LEAST_HEX_MARK else str(mark)]
    if "uid" in told:
        first += ["uid", str(told["uid"])]
    second = ["cache", *([f"<{','.join(told['cache'])}>"] if told["cache"] else [])]
    second += _metric_words(answer, told)
    if "iif" in told:
        second += ["iif", told["iif"]]
    return f"{' '.join(first)} \n    {' '.join(second)} \n"


def _text6(answer: Answer) -> str:
    told = answer.to_dict()
    words = [*_head(told), "metric", str(told["metric"]), *_metric_words(answer, told)]
    if "iif" in told:
        words += ["iif", told["iif"]]
    return f"{' '.join(words)} pref {told['pref']}\n"


# --- asking -------------------------------------------------------------------------------------------


def ask_row(netns: Netns, question: Question) -> np.ndarray:
    """The question as the path takes it: int64[ASK_COLUMNS].

    Raises QuestionError for a device that the host does not have, and what the kernel refuses.
    """
    row = np.zeros(T.ASK_COLUMNS, np.int64)
    row[T.ASK_FAMILY] = question.family
    row[T.ASK_SRC_SET] = bool(question.source)
    row[T.ASK_SRC_HI], row[T.ASK_SRC_LO] = halves(question.source or 0)
    row[T.ASK_TOS] = question.tos
    row[T.ASK_MARK] = question.mark
    row[T.ASK_IIF], row[T.ASK_OIF] = (
        netns.device_row(name) if name is not None else T.NONE
        for name in (question.iif, question.oif)
    )  # fmt: skip
    if T.NOT_A_DEVICE in (row[T.ASK_IIF], row[T.ASK_OIF]):
        wrong = question.iif if row[T.ASK_IIF] == T.NOT_A_DEVICE else question.oif
        raise QuestionError(f'Cannot find device "{wrong}"')
    if question.protocol is None:  # IPv4 supposes UDP
        row[T.ASK_PROTOCOL] = UDP if question.family == 4 else 0
    else:
        row[T.ASK_PROTOCOL] = question.protocol
    row[T.ASK_PORTS] = question.sport << 16 | question.dport
    if question.family == 6 or question.iif is None:  # what comes in belongs to root
        row[T.ASK_UID] = question.uid or 0
    return row


def _packet(question: Question) -> np.ndarray:
    """An IPv4 packet with the protocol and ports asked for, without addresses."""
    packet = bytearray(28)
    packet[0] = 0x45
    packet[9] = UDP if question.protocol is None else question.protocol
    packet[20:24] = question.sport.to_bytes(2) + question.dport.to_bytes(2)
    return np.frombuffer(bytes(packet), np.uint8)


def answer_rows(
    netns: Netns, question: Question, destinations: np.ndarray, trace: np.ndarray | None = None
) -> np.ndarray:
    """Answers in numbers: int64[n, GOT_COLUMNS] for `destinations` int64[n, 2] (halves).

    Devices, routes, next hops and rules are rows of the host's tables.
    """
    from ippath.tx.route_get import route_get

    ask, packet = ask_row(netns, question), _packet(question)
    tables, state = netns.handles_to_ask()
    got = np.empty((len(destinations), T.GOT_COLUMNS), np.int64)
    for at in range(0, len(destinations), CHUNK):
        part = np.ascontiguousarray(destinations[at : at + CHUNK], np.int64)
        route_get(tables, state, packet, ask, part, got[at : at + CHUNK], trace)
    return got


def ask(
    netns: Netns, question: Question, destination: int, trace: np.ndarray | None = None
) -> Answer:
    """Ask the host for the way to one destination (an int)."""
    got = answer_rows(netns, question, np.array([halves(destination)], np.int64), trace)[0]
    return answer_of(netns, question, destination, got)


def answer_of(netns: Netns, question: Question, destination: int, got: np.ndarray) -> Answer:
    """The answer that a row of numbers stands for."""
    family = question.family
    route = netns.routes(family)[got[T.GOT_ROUTE]] if got[T.GOT_ROUTE] >= 0 else None
    rule = int(got[T.GOT_RULE])
    error = int(got[T.GOT_ERROR])
    if not error and family == 6 and question.iif is not None and route is not None:
        if route.prefix >> (BITS[6] - 8) == 0xFF:
            error = EMSGSIZE  # the multicast router is asked how it would go on, and has no answer
    if error:
        return Answer(question, destination, error, route=route, rule=rule)
    kind = TYPE_NAMES[int(got[T.GOT_TYPE])]
    return Answer(
        question,
        destination,
        type=kind,
        device=netns.host.devices[got[T.GOT_DEVICE]].name,
        gateway_family=int(got[T.GOT_GATEWAY_FAMILY]),
        gateway=whole(got[T.GOT_GATEWAY_HI], got[T.GOT_GATEWAY_LO]),
        chosen=whole(got[T.GOT_SRC_HI], got[T.GOT_SRC_LO]) if got[T.GOT_SRC_SET] else None,
        table=int(got[T.GOT_TABLE]),
        flags=int(got[T.GOT_FLAGS]),
        route=route,
        rule=rule,
        learned_mtu=int(got[T.GOT_MTU]),
        learned_lock=bool(got[T.GOT_LOCKED]),
        expires=int(got[T.GOT_EXPIRES_NS]) // 10**9,
        uses_route=family == 6
        or (got[T.GOT_NH] >= 0 and (question.iif is None or kind == "unicast")),
    )


def whole(hi: Any, lo: Any) -> int:
    """The address whose signed halves are `hi` and `lo`."""
    return (int(hi) & 0xFFFFFFFFFFFFFFFF) << 64 | (int(lo) & 0xFFFFFFFFFFFFFFFF)

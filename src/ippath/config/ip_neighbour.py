"""`ip neigh` lines and what `ip neigh` prints."""

from __future__ import annotations

from ippath.config.draft import Draft, refused
from ippath.config.values import address_in, take_mac
from ippath.config.words import Reader, Word, Wrong, find_keyword, nearest
from ippath.fib.control import ControlError, add_neighbour
from ippath.model import Neighbour

VERBS = ("add", "change", "chg", "replace", "delete", "flush", "show", "list", "lst", "get", "help")
STATES = (
    "permanent", "reachable", "noarp", "none", "stale", "delay", "probe", "failed", "incomplete",
)  # fmt: skip
KEYWORDS = (
    "lladdr", "dev", "nud", "proxy", "router", "to", "protocol", "extern_learn", "managed", "use",
    "ref", "used", "probes", "via", "vni", "nomaster",
)  # fmt: skip
_PRINTED_STATES = {s.upper() for s in STATES}


def is_printed_neighbour(words: list[Word]) -> bool:
    """Whether a line without `ip` is one that `ip neigh` prints (and not one of `ip route`)."""
    texts = [w.text for w in words]
    return "lladdr" in texts[1:] or texts[-1] in _PRINTED_STATES or texts[-1] == "proxy"


def read_neighbour(draft: Draft, reader: Reader, family: int | None) -> None:
    """A line that begins with `ip neigh`."""
    at = reader.word
    verb = reader.keyword(VERBS) if not ({".", ":"} & set(reader.text)) else "add"
    if verb in ("show", "list", "lst") or (verb is None and not reader):
        draft.listing, draft.listing_family = "neigh", family
        reader.at = len(reader.words)  # what is shown is below
        return
    if verb is None or verb in ("get", "help"):
        raise Wrong(
            at, f"expected add, replace, del or flush, not {at.text if at else ''!r}",
            nearest(at.text if at else "", VERBS),
        )  # fmt: skip
    host = draft.host
    if verb == "flush":
        device = None
        while reader:
            if reader.skip("dev"):
                device = draft.take_device(reader).name
            elif not reader.skip("all"):
                reader.end(("dev", "all"))
        host.neighbours = [
            n
            for n in host.neighbours
            if (device is not None and n.device != device)
            or (family is not None and n.family != family)
            or n.state == "permanent"
        ]
        return
    entry, word = _read(draft, reader, family, None)
    known = [
        n
        for n in host.neighbours
        if (n.family, n.ip, n.device, n.proxy)
        == (entry.family, entry.ip, entry.device, entry.proxy)
    ]
    if verb == "delete":
        if not known:
            raise Wrong(word, "RTNETLINK answers: No such file or directory")
        host.neighbours = [n for n in host.neighbours if n is not known[0]]
        return
    if verb == "add" and known and not entry.proxy:
        raise Wrong(word, "RTNETLINK answers: File exists")
    if verb in ("change", "chg") and not known:
        raise Wrong(word, "RTNETLINK answers: No such file or directory")
    _put(draft, entry, word)


def read_printed_neighbour(draft: Draft, reader: Reader) -> None:
    """`192.0.2.7 dev eth0 lladdr 02:00:00:00:00:07 REACHABLE` as `ip neigh` prints it."""
    device = None
    entry, word = _read(draft, reader, None, device)
    _put(draft, entry, word)


def _put(draft: Draft, entry: Neighbour, word: Word) -> None:
    try:
        add_neighbour(draft.host, entry)
    except ControlError as error:
        raise refused(error, word) from None


def _read(
    draft: Draft, reader: Reader, family: int | None, device: str | None
) -> tuple[Neighbour, Word]:
    address: Word | None = None
    mac: int | None = None
    state: str | None = None
    proxy = False
    while reader:
        at = reader.word
        assert at is not None
        if at.text in _PRINTED_STATES:
            reader.take("a state")
            state = at.text.lower()
            continue
        looks = {".", ":"} & set(at.text)
        keyword = None if address is None and looks else find_keyword(at.text, KEYWORDS)
        if keyword is None:
            if address is not None:
                raise Wrong(
                    at, f"{at.text!r} is not known here; expected lladdr, dev, nud or proxy",
                    nearest(at.text, (*KEYWORDS, *_PRINTED_STATES)),
                )  # fmt: skip
            address = reader.take("an address")
            continue
        reader.take(keyword)
        if keyword == "lladdr":
            mac = take_mac(reader, long=reader.text.count(":") == 7)
        elif keyword == "dev":
            device = draft.take_device(reader).name
        elif keyword == "nud":
            state = reader.choice(STATES, "a state like permanent or reachable")
        elif keyword == "proxy":
            proxy = True
        elif keyword in ("protocol", "ref", "used", "probes"):
            reader.take(f"a value for {keyword}")
        elif keyword in ("via", "vni"):
            raise Wrong(at, f"{keyword} is not supported")
    if address is None:
        raise Wrong(None, "expected the address of the neighbour")
    found, ip = address_in(address, address.text, family)
    if device is None:
        raise Wrong(None, "expected dev and the name of a device")
    return Neighbour(found, ip, device, mac, state or "permanent", proxy), address

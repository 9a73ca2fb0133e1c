"""The sysctls that decide about packets: defaults, inheritance, and how `all` and device combine.

Values live in `Host.sysctls` by their dotted names in the order in which they were written, since a
write to `all` overwrites devices for some names and the latest write holds.
"""

from __future__ import annotations

from ippath.model import Device, Host

# kernel defaults of the per-device settings that matter here (net.ipv4.conf.*, net.ipv6.conf.*)
DEFAULTS4 = {
    "forwarding": 0, "mc_forwarding": 0, "bc_forwarding": 0, "accept_redirects": 1,
    "secure_redirects": 1, "send_redirects": 1, "shared_media": 1, "rp_filter": 0,
    "accept_source_route": 1, "accept_local": 0, "route_localnet": 0, "src_valid_mark": 0,
    "log_martians": 0, "drop_unicast_in_l2_multicast": 0, "ignore_routes_with_linkdown": 0,
    "proxy_arp": 0, "proxy_arp_pvlan": 0, "arp_filter": 0, "arp_announce": 0, "arp_ignore": 0,
    "arp_notify": 0, "arp_accept": 0, "disable_policy": 0, "disable_xfrm": 0, "tag": 0,
    "promote_secondaries": 0, "bootp_relay": 0, "medium_id": 0, "arp_evict_nocarrier": 1,
}  # fmt: skip
DEFAULTS6 = {
    "forwarding": 0, "hop_limit": 64, "disable_ipv6": 0, "drop_unicast_in_l2_multicast": 0,
    "force_forwarding": 0, "ignore_routes_with_linkdown": 0, "accept_redirects": 1,
    "accept_ra": 1, "accept_source_route": 0, "addr_gen_mode": 0, "keep_addr_on_down": 0,
    "mc_forwarding": 0, "proxy_ndp": 0, "use_oif_addrs_only": 0, "autoconf": 1, "mtu": 0,
    "accept_dad": 1, "accept_ra_rt_info_max_plen": 0, "seg6_enabled": 0, "rpl_seg_enabled": 0,
    "suppress_frag_ndisc": 1,
}  # fmt: skip
# what `all` starts with where it differs from a device's own default
ALL_DEFAULTS4 = {"accept_source_route": 0}

# how `all` and device combine in IPv4 (IN_DEV_ANDCONF, IN_DEV_ORCONF, IN_DEV_MAXCONF)
DEVICE_ONLY = {"forwarding", "tag", "promote_secondaries", "medium_id"}
AND = {
    "mc_forwarding",
    "bc_forwarding",
    "accept_source_route",
    "bootp_relay",
    "arp_evict_nocarrier",
}
MAX = {"rp_filter", "arp_announce", "arp_ignore", "arp_notify", "arp_accept"}
# writing these to `all` writes every device and `default` too
COPIED4 = {"forwarding"}
COPIED6 = {"forwarding", "disable_ipv6", "ignore_routes_with_linkdown", "force_forwarding"}


def set_sysctl(host: Host, key: str, value: str | int) -> None:
    """Write a sysctl, as `sysctl -w` does: the latest write holds."""
    if key == "net.ipv4.ip_forward":
        key = "net.ipv4.conf.all.forwarding"
    host.sysctls.pop(key, None)
    host.sysctls[key] = str(value)
    if key == "net.ipv4.conf.all.forwarding":  # a router refuses redirects until told otherwise
        host.sysctls.pop("net.ipv4.conf.all.accept_redirects", None)
        host.sysctls["net.ipv4.conf.all.accept_redirects"] = "0" if int(value) else "1"


def _written(host: Host, keys: list[str]) -> str | None:
    """The value of the key written last, or None."""
    present = [key for key in keys if key in host.sysctls]
    if not present:
        return None
    if len(present) == 1:
        return host.sysctls[present[0]]
    order = list(host.sysctls)
    return host.sysctls[max(present, key=order.index)]


def _keys(family: int, scope: str, name: str) -> list[str]:
    keys = [f"net.ipv{family}.conf.{scope}.{name}"]
    if "." in scope:  # a dot in a device name is written as a slash
        keys.append(f"net.ipv{family}.conf.{scope.replace('.', '/')}.{name}")
    return keys


def own_sysctl(host: Host, family: int, scope: str, name: str) -> int:
    """The value that `sysctl net.ipvF.conf.SCOPE.name` shows; `scope` is a device, all or default."""
    copied = COPIED4 if family == 4 else COPIED6
    keys = _keys(family, scope, name)
    if name in copied:
        keys += _keys(family, "all", name)
    if family == 4 and name == "forwarding":
        keys.append("net.ipv4.ip_forward")
    value = _written(host, keys)
    if value is None and scope != "all":
        value = _written(host, _keys(family, "default", name))
    if value is not None:
        return int(value)
    defaults = DEFAULTS4 if family == 4 else DEFAULTS6
    if family == 4 and scope == "all":
        return ALL_DEFAULTS4.get(name, defaults.get(name, 0))
    return defaults.get(name, 0)


def effective_sysctl(host: Host, family: int, device: Device, name: str) -> int:
    """The value that decides for a device: `all` and its own, combined as the kernel does.

    IPv6 looks at the device alone (for most names `all` has no effect; see COPIED6 for the rest).
    """
    own = own_sysctl(host, family, device.name, name)
    if family == 6 or name in DEVICE_ONLY:
        return own
    everywhere = own_sysctl(host, 4, "all", name)
    if name == "accept_redirects":
        forwards = own_sysctl(host, 4, device.name, "forwarding")
        return int(bool(everywhere and own) if forwards else bool(everywhere or own))
    if name in AND:
        return int(bool(everywhere and own))
    if name in MAX:
        return max(everywhere, own)
    return int(bool(everywhere or own))

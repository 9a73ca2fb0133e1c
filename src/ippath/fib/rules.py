"""Policy rules: which table, in which order (kernel: fib_rules_lookup, fib4_rule_match, fib6_rule_match).

IPv4 prefixes are kept as 128-bit ones (high half zero, length + 96), so that one matcher serves
both families; only the TOS selector differs.
"""

from __future__ import annotations

from ippath.jit import kernel
from ippath.tables import (
    ANY, DEV_MASTER, FLOW_DPORT, FLOW_DST_HI, FLOW_DST_LO, FLOW_IIF, FLOW_L3MDEV, FLOW_MARK, FLOW_OIF, FLOW_PREFER, FLOW_PROTOCOL, NONE,
    FLOW_SPORT, FLOW_SRC_HI, FLOW_SRC_LO, FLOW_TOS, FLOW_UID, RULE_DPORT_HIGH, RULE_DPORT_LOW, RULE_DSCP,
    RULE_DST_HI, RULE_DST_LO, RULE_DST_PLEN, RULE_IIF, RULE_INVERT, RULE_L3MDEV, RULE_MARK,
    RULE_MASK, RULE_OIF, RULE_PROTOCOL, RULE_SPORT_HIGH, RULE_SPORT_LOW, RULE_SRC_HI, RULE_SRC_LO,
    RULE_SRC_PLEN, RULE_TABLE, RULE_TOS, RULE_UID_HIGH, RULE_UID_LOW,
)  # fmt: skip
from ippath.wire.ipv6 import prefix_match

# IPv4 `tos` rules and routes compare only these bits of the TOS byte (IPTOS_RT_MASK)
TOS_MASK4 = 0x1C
DSCP_MASK = 0xFC
LOOPBACK_DEVICE = 0


@kernel
def find_l3mdev(h, flow):
    """Note the VRF that a flow belongs to, by its devices (kernel: l3mdev_update_flow)."""
    iif, oif = flow[FLOW_IIF], flow[FLOW_OIF]
    if oif >= 0:
        if flow[FLOW_L3MDEV] == NONE:
            flow[FLOW_L3MDEV] = h.device[oif, DEV_MASTER]
        if h.device[oif, DEV_MASTER] == oif:  # it says which tables, not by which device
            flow[FLOW_OIF] = flow[FLOW_PREFER] = NONE
    elif iif > LOOPBACK_DEVICE and flow[FLOW_L3MDEV] == NONE:
        flow[FLOW_L3MDEV] = h.device[iif, DEV_MASTER]


@kernel
def rule_table(h, rules, rule, flow, column):
    """The row of the table that a rule looks up, or NONE (kernel: fib_rule_get_table).

    `column` is DEV_VRF_TABLE4 or DEV_VRF_TABLE6.
    """
    if rules[rule, RULE_L3MDEV]:
        vrf = flow[FLOW_L3MDEV]
        return h.device[vrf, column] if vrf != NONE else NONE  # `not` matches without one
    return rules[rule, RULE_TABLE]


@kernel
def _device_matches(h, wanted, device, flow):
    """Is it the device of a selector? That of a VRF stands for all of its devices."""
    if wanted == ANY:
        return True
    if wanted >= 0 and h.device[wanted, DEV_MASTER] == wanted:
        return flow[FLOW_L3MDEV] == wanted
    return device == wanted


@kernel
def _selectors_match(h, rules, rule, flow, tos_mask):
    if not _device_matches(h, rules[rule, RULE_IIF], flow[FLOW_IIF], flow):
        return False
    if not _device_matches(h, rules[rule, RULE_OIF], flow[FLOW_OIF], flow):
        return False
    if (rules[rule, RULE_MARK] ^ flow[FLOW_MARK]) & rules[rule, RULE_MASK]:
        return False
    if rules[rule, RULE_L3MDEV] and flow[FLOW_L3MDEV] == NONE:
        return False
    if not rules[rule, RULE_UID_LOW] <= flow[FLOW_UID] <= rules[rule, RULE_UID_HIGH]:
        return False  # forwarded and answered packets have uid 0
    if not prefix_match(
        flow[FLOW_SRC_HI], flow[FLOW_SRC_LO],
        rules[rule, RULE_SRC_HI], rules[rule, RULE_SRC_LO], rules[rule, RULE_SRC_PLEN],
    ):  # fmt: skip
        return False
    if not prefix_match(
        flow[FLOW_DST_HI], flow[FLOW_DST_LO],
        rules[rule, RULE_DST_HI], rules[rule, RULE_DST_LO], rules[rule, RULE_DST_PLEN],
    ):  # fmt: skip
        return False
    if rules[rule, RULE_DSCP] != ANY:
        if rules[rule, RULE_DSCP] != (flow[FLOW_TOS] & DSCP_MASK) >> 2:
            return False
    elif rules[rule, RULE_TOS] and rules[rule, RULE_TOS] != flow[FLOW_TOS] & tos_mask:
        return False
    if rules[rule, RULE_PROTOCOL] and rules[rule, RULE_PROTOCOL] != flow[FLOW_PROTOCOL]:
        return False
    if rules[rule, RULE_SPORT_LOW] != ANY and not (
        rules[rule, RULE_SPORT_LOW] <= flow[FLOW_SPORT] <= rules[rule, RULE_SPORT_HIGH]
    ):
        return False
    return rules[rule, RULE_DPORT_LOW] == ANY or (
        rules[rule, RULE_DPORT_LOW] <= flow[FLOW_DPORT] <= rules[rule, RULE_DPORT_HIGH]
    )


@kernel
def rule_matches(h, rules, rule, flow, tos_mask):
    """Does the flow match the rule, `not` included (kernel: fib_rule_match)?"""
    return _selectors_match(h, rules, rule, flow, tos_mask) != (rules[rule, RULE_INVERT] != 0)

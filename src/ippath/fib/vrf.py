"""Devices that belong to a VRF, a layer-3 master with a table of its own (kernel: net/l3mdev, drivers/net/vrf.c)."""

from __future__ import annotations

from ippath.model import Device, Host

PREFERENCE = 1000  # of the rules that the first VRF brings
MTU = 65575  # bytes of a VRF device


def vrf_of(host: Host, device: Device | None) -> Device | None:
    """The VRF that a device belongs to; a VRF belongs to itself."""
    if device is None or device.kind == "vrf":
        return device
    master = host.device(device.master) if device.master is not None else None
    return master if master is not None and master.kind == "vrf" else None


def table_of(host: Host, device: Device, otherwise: int) -> int:
    """The table of the device's automatic routes (kernel: l3mdev_fib_table)."""
    vrf = vrf_of(host, device)
    return vrf.vrf_table if vrf is not None else otherwise

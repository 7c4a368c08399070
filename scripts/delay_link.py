#!/usr/bin/env python3
"""A network link with a delay, in user space, for kernels without netem (scripts/netns-hosts.sh).

    delay_link.py relay DEVICE DEVICE SECONDS   carries frames between two devices, each with a delay of SECONDS, until killed
    delay_link.py plain DEVICE                  turns off the device's offloads, so that frames are as on a wire
"""

import collections
import ctypes
import errno
import fcntl
import select
import socket
import struct
import sys
import time

ETH_P_ALL = 3
SIOCETHTOOL = 0x8946
# Checksums and segmentation left to the network card: ETHTOOL_S{TXCSUM,SG,TSO,GSO,GRO}.
OFFLOADS = (0x17, 0x19, 0x1f, 0x24, 0x2c)
PACKET_OUTGOING = 4


def plain(device):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for offload in OFFLOADS:
            value = (ctypes.c_uint32 * 2)(offload, 0)
            try:
                fcntl.ioctl(control, SIOCETHTOOL, struct.pack("16sP", device.encode(), ctypes.addressof(value)))
            except OSError:
                pass  # this one the device does not have


def relay(devices, delay):
    ends = []
    for device in devices:
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 26)
        end.bind((device, 0))
        end.setblocking(False)
        ends.append(end)
    waiting = collections.deque()  # (due, to, frame); delays are equal, so the order is that of arrival
    while True:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, to, frame = waiting.popleft()
            try:
                to.send(frame)
            except OSError:
                pass  # lost, as on any wire; TCP sends it again
        ready, _, _ = select.select(ends, [], [], max(0.0, waiting[0][0] - now) if waiting else None)
        for end in ready:
            other = ends[1 - ends.index(end)]
            for _ in range(64):
                try:
                    frame, address = end.recvfrom(1 << 17)
                except BlockingIOError:
                    break
                if address[2] != PACKET_OUTGOING:  # that one we have sent ourselves
                    waiting.append((time.monotonic() + delay, other, frame))


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "relay":
        try:
            relay(sys.argv[2:4], float(sys.argv[4]))
        except OSError as error:
            if error.errno != errno.ENETDOWN:  # the end of every relay: its network is taken away
                sys.exit(f"delay_link.py: {error}")
    elif len(sys.argv) == 3 and sys.argv[1] == "plain":
        plain(sys.argv[2])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()

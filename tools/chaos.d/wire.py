"""Faults on the nodes' cables: nftables rules at the ports of the storm's own switch, in its own network namespaces."""
import shutil
import subprocess
import sys

import cluster

# Disables checksum offload (ETHTOOL_STXCSUM), with which veth computes no checksums and delivers changed packets.
CHECKSUMS = """
import ctypes, fcntl, socket, struct, sys
for name in sys.argv[1:]:
    value = ctypes.create_string_buffer(struct.pack("II", 0x17, 0))
    request = struct.pack("16sP16x", name.encode(), ctypes.addressof(value))
    fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8946, request)
"""


class Wire:
    """The rules of all cables. `why_not` says why there can be none here; None if they work."""

    def __init__(self, machines):
        self.cluster = machines
        self.rules = {}  # (node, whether outgoing) -> [rule]
        self.why_not = self._try()

    def _try(self):
        if not shutil.which("nft"):
            return "there is no nft (Debian's package nftables, tools/setup --test-tools installs it)"
        try:
            self._checksums(cluster.HUB, ["hub"])
            for node in range(self.cluster.count):
                self._checksums(node, ["eth0"])
            self._load(0, True, [])
            self._load(0, False, [])
        except (cluster.NoNetwork, subprocess.CalledProcessError) as error:
            return f"nft refuses: {getattr(error, 'stderr', None) or error}"
        return None

    def _checksums(self, node, names):
        subprocess.run(self.cluster.on(node, [sys.executable, "-c", CHECKSUMS] + names), check=True, capture_output=True,
                       text=True)

    def _load(self, node, sends, rules):
        """Loads the rules of one direction: at the switch's port for packets that the node sends, else at the node's end."""
        table = f"table netdev chaos{node}{'out' if sends else 'in'}"
        device = f"port{node}" if sends else "eth0"
        text = f"{table}\ndelete {table}\n"
        if rules:
            text += (f'{table} {{\n  chain it {{\n    type filter hook ingress device "{device}" priority 0; policy accept;\n    '
                     + "\n    ".join(rules) + "\n  }\n}\n")
        subprocess.run(self.cluster.on(cluster.HUB if sends else node, ["nft", "-f", "-"]), input=text, check=True,
                       capture_output=True, text=True)

    def _change(self, node, sends, change):
        rules = self.rules.setdefault((node, sends), [])
        change(rules)
        self._load(node, sends, rules)

    def break_it(self, node, sends, rule):
        """Adds a rule to one direction of a node's cable and returns a function that removes it."""
        self._change(node, sends, lambda rules: rules.append(rule))
        return lambda: self._change(node, sends, lambda rules: rules.remove(rule))

    def checksum_errors(self):
        """Returns the number of TCP segments that all nodes refused because of their checksum."""
        total = 0
        for node in [cluster.HUB] + list(range(self.cluster.count)):
            done = subprocess.run(self.cluster.on(node, ["cat", "/proc/net/snmp"]), capture_output=True, text=True)
            lines = [line.split() for line in done.stdout.splitlines() if line.startswith("Tcp:")]
            if len(lines) == 2 and "InCsumErrors" in lines[0]:
                total += int(lines[1][lines[0].index("InCsumErrors")])
        return total


def all_lost():
    return "counter drop"


def lost_towards(address):
    return f"ip daddr {address} counter drop"


def some_lost(percent):
    return f"numgen random mod 1000 < {int(percent * 10)} counter drop"


def some_changed(percent, bit):
    """Returns the rule that changes the byte at this bit of a TCP segment in some packets."""
    return f"ip protocol tcp ip length > 120 numgen random mod 1000 < {int(percent * 10)} @th,{bit},8 set 0x5a counter"

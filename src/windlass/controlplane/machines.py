"""Machines simulated on this machine: each is a set of namespaces with an address of its own, on one wire.

Root only. A machine ends with its first process, and that with this process: mounts, wires and addresses too.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .processes import Server

UP_WITHIN = 20.0
"""Seconds that a machine may take to start; it takes a tenth of a second."""
_HOLD = """
mount --make-rshared /
for folder in /run /var/lib /var/log "$1"; do mount -t tmpfs -o mode=755,size=4g tmpfs "$folder"; done
trap '' CHLD   # the kernel reaps orphans
touch "$1/up"
exec sleep infinity
"""


@dataclass
class Machine:
    """Its own host name, address, processes and `disk` (in memory); all other files are this machine's."""

    name: str
    address: str
    pods: str
    """Address range of its pods: "10.210.1.0/24"."""
    disk: Path
    holder: Server
    pid: int = 0
    servers: list[Server] = field(default_factory=list)

    def inside(self, command: Sequence[str | Path]) -> list[str | Path]:
        """Returns the command line that runs a command in the machine, and ends with its process here."""
        enter = ["nsenter", "--target", str(self.pid), "--mount", "--net", "--pid", "--uts", "--ipc"]
        return [*enter, "setpriv", "--pdeathsig", "KILL", *command]

    def run(self, *command: str | Path) -> str:
        """Runs a command in the machine and returns its output. Raises RuntimeError."""
        return run(*self.inside(command))

    def power_off(self) -> None:
        """Ends the machine at once, like a power failure."""
        for server in self.servers:
            server.kill()
        self.holder.kill()


@dataclass
class Wire:
    """A network that connects the machines with each other and with this host, which is `address` on it."""

    number: int
    """Addresses on it begin with 10.number."""
    holder: Server
    pid: int = 0
    machines: list[Machine] = field(default_factory=list)

    @property
    def address(self) -> str:
        """The address of this host on the wire."""
        return f"10.{self.number}.0.1"

    @property
    def services(self) -> str:
        """The first three numbers of service addresses."""
        return f"10.{self.number}.96"

    def cut(self) -> None:
        """Ends all machines and removes the wire."""
        for machine in self.machines:
            machine.power_off()
        self.holder.kill()


def run(*command: str | Path) -> str:
    """Runs a command on this host and returns its output. Raises RuntimeError."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def lay_wire(folder: Path) -> Wire:
    """Creates a bridge in a network namespace of its own, and this host's end of it."""
    holder = Server("wire", ["unshare", "--net", "--", "sleep", "infinity"], folder / "wire.log")
    holder.start()
    wire = Wire(_free_number(), holder, holder.pid)
    ours, theirs = f"wl{wire.number}", f"wl{wire.number}p"
    _until(lambda: Path(f"/proc/{wire.pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink(), holder)
    run("ip", "link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", str(wire.pid))
    _inside_wire(wire, "link", "add", "bridge", "type", "bridge")
    for device in ("bridge", theirs):
        _inside_wire(wire, "link", "set", device, "up")
    _inside_wire(wire, "link", "set", theirs, "master", "bridge")
    run("ip", "address", "add", f"{wire.address}/24", "dev", ours)
    run("ip", "address", "add", f"{wire.services}.1/32", "dev", ours)
    run("ip", "link", "set", ours, "up")
    return wire


def boot(wire: Wire, folder: Path, name: str) -> Machine:
    """Starts another machine on the wire."""
    index = len(wire.machines) + 1
    disk = folder / name
    disk.mkdir()
    apart = ["--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child=KILL", "--mount-proc"]
    command: list[str | Path] = ["unshare", *apart, "--", "sh", "-euc", _HOLD, "hold", disk]
    holder = Server(name, command, folder / f"{name}.log")
    machine = Machine(name, f"10.{wire.number}.0.{10 + index}", f"10.{wire.number}.{index}.0/24", disk, holder)
    holder.start()
    children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children")
    _until(lambda: children.read_text().strip(), holder)
    machine.pid = int(children.read_text())
    _until(lambda: Path(f"/proc/{machine.pid}/root{disk}/up").exists(), holder)
    wire.machines.append(machine)
    _connect(wire, machine)
    return machine


def _connect(wire: Wire, machine: Machine) -> None:
    """Connects a machine: its interface, its address, and the routes of all others to its pods."""
    plug = f"to-{machine.name}"
    _inside_wire(wire, "link", "add", plug, "type", "veth", "peer", "name", "eth0", "netns", str(machine.pid))
    _inside_wire(wire, "link", "set", plug, "master", "bridge", "up")
    machine.run("hostname", machine.name)
    machine.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
    machine.run("ip", "link", "set", "lo", "up")
    machine.run("ip", "link", "set", "eth0", "up")
    machine.run("ip", "address", "add", f"{machine.address}/24", "dev", "eth0")
    machine.run("ip", "route", "add", "default", "via", wire.address)
    run("ip", "route", "add", machine.pods, "via", machine.address)
    for other in wire.machines:
        if other is not machine:
            machine.run("ip", "route", "add", other.pods, "via", other.address)
            other.run("ip", "route", "add", machine.pods, "via", machine.address)


def _inside_wire(wire: Wire, *command: str) -> None:
    run("nsenter", "--target", str(wire.pid), "--net", "--", "ip", *command)


def _free_number() -> int:
    """Returns a number that no address or route of this machine uses yet."""
    used = run("ip", "route", "show", "table", "all")
    numbers = random.sample(range(150, 250), 100)
    return next(number for number in numbers if f"10.{number}." not in used)


def _until(there: Callable[[], object], holder: Server) -> None:
    give_up = time.monotonic() + UP_WITHIN
    while not there():
        holder.check_running()
        if time.monotonic() > give_up:
            raise RuntimeError(f"{holder.name} does not come up; see {holder.log}")
        time.sleep(0.01)

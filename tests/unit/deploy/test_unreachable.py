"""Ports made unreachable, in a network namespace of the kernel's own making."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.chaos.targets.kubernetes import unreachable

_NAMESPACE = ["unshare", "--user", "--map-root-user", "--net"]
# A device whose only packets are the test's; nobody is at its other end.
_DEVICE = """
ip link set lo up && ip link add name near type veth peer name far &&
{ ! [ -e /proc/sys/net/ipv6 ] || echo 1 > /proc/sys/net/ipv6/conf/near/disable_ipv6; } &&
ip addr add 10.9.0.1/24 dev near && ip link set near up && ip link set far up &&
ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev near && exec "$@"
"""
_PROGRAM = """
import signal, socket, subprocess, sys
from contextlib import closing

def packets():
    lines = open("/proc/net/dev").read().splitlines()
    return next(int(line.split()[10]) for line in lines if line.split()[0] == "near:")

def leave(port):
    before = packets()
    with closing(socket.socket()) as tried:
        tried.setblocking(False)
        tried.connect_ex(("10.9.0.2", port))
        return packets() > before

def rules():
    shown = [subprocess.check_output(["ip", version, "rule"]) for version in ("-4", "-6")]
    return b"".join(shown).count(b"lookup 7205")

print(leave(9092), leave(9094), rules())
script, seconds = sys.argv[1:]
child = subprocess.Popen([sys.executable, script, seconds, "9092", "9094"],
                         stdout=subprocess.PIPE)
child.stdout.readline()
# Its time may be over before all is looked at; it takes nothing back as long as it is stopped.
child.send_signal(signal.SIGSTOP)
print(leave(9092), leave(9093), leave(9094), rules())
child.send_signal(signal.SIGCONT)
if float(seconds) > 1:
    child.send_signal(signal.SIGTERM)
print(child.wait(), leave(9092), leave(9094), rules())
"""


def _ran(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_NAMESPACE, *command], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("seconds", ["1", "300"], ids=["by itself", "told to"])
def test_ports_are_out_of_reach_until_it_ends(seconds: str) -> None:
    tried = _ran("sh", "-c", _DEVICE, "sh", "true")
    if tried.returncode != 0:
        pytest.skip(f"no network namespace can be made here: {tried.stderr.strip()}")
    script = str(Path(unreachable.__file__))
    ran = _ran("sh", "-c", _DEVICE, "sh", sys.executable, "-c", _PROGRAM, script, seconds)
    before, during, after = ran.stdout.splitlines()
    assert before == "True True 0", ran.stderr
    assert during in {"False True False 2", "False True False 4"}
    assert after == "0 True True 0"


def test_without_the_right_to_it_the_kernel_s_answer_is_told() -> None:
    script = str(Path(unreachable.__file__))
    command = ["unshare", "--user", sys.executable, script, "9", "9092"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "unshare" in ran.stderr:
        pytest.skip(f"no namespace can be made here: {ran.stderr.strip()}")
    assert ran.returncode == 1
    assert "Operation not permitted" in ran.stderr

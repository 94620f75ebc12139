"""The machine of a run in words that identify its kind, never the machine itself: no names, no paths, no addresses."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path

import psutil
from confluent_kafka import libversion

from barnabas.embedded_zookeeper import ZooKeeperUnavailable, find_java


def describe(data_dir: Path) -> dict[str, str]:
    """What matters for the numbers; `data_dir` is where the brokers write."""
    return {
        "CPU": f"{os.cpu_count()} cores, {cpu_model(Path('/proc/cpuinfo').read_text())}",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "disk": disk_kind(data_dir),
        "kernel": f"{platform.system()} {kernel_version(platform.release())}",
        "Python": platform.python_version(),
        "Java": java_version(),
        "client": f"librdkafka {libversion()[0]}",
        "load before": f"{os.getloadavg()[0]:.1f} processes on average over a minute",
    }


def cpu_model(cpuinfo: str) -> str:
    """The first `model name` (or, on other architectures, whatever names the CPU) in /proc/cpuinfo."""
    found = re.search(r"^(?:model name|Model|Hardware)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return " ".join(found.group(1).split()) if found else platform.machine()


def kernel_version(release: str) -> str:
    """Numbers only: what follows them is a builder's label."""
    found = re.match(r"\d+(\.\d+)*", release)
    return found.group(0) if found else release


def java_version() -> str:
    """The version that `java` says, or that there is none."""
    try:
        run = subprocess.run([find_java(), "-version"], capture_output=True, text=True, timeout=30.0)
    except (ZooKeeperUnavailable, OSError, subprocess.TimeoutExpired):
        return "none"
    found = re.search(r'version "([^"]+)"', run.stderr)
    return found.group(1) if found else "unknown"


def disk_kind(directory: Path) -> str:
    """Filesystem and kind of the device under a directory, as far as the kernel tells."""
    mounts = [mount for mount in psutil.disk_partitions(all=True) if directory.is_relative_to(mount.mountpoint)]
    if not mounts:
        return "unknown"
    mount = max(mounts, key=lambda one: len(one.mountpoint))
    device = Path(mount.device).name
    return f"{mount.fstype} on {device_kind(device)}"


def device_kind(device: str, sys_block: Path = Path("/sys/block")) -> str:
    """`nvme0n1p2` is NVMe, `vda` a virtual disk, `sda` rotating or not, as the kernel says."""
    if device.startswith("nvme"):
        return "NVMe"
    base = device.rstrip("0123456789")
    if base.startswith(("vd", "xvd")):
        return "a virtual disk"
    try:
        rotational = (sys_block / base / "queue" / "rotational").read_text().strip()
    except OSError:
        return "an unknown device"
    return "a rotating disk" if rotational == "1" else "a solid state disk"

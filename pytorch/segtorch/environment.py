"""What machine and which libraries: a number without its machine is worth nothing."""

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

import torch

from . import REPOSITORY, RunError, __version__

PACKAGES = (
    "torch",
    "torchvision",
    "triton",
    "transformers",
    "timm",
    "numpy",
    "pillow",
    "nvidia-cudnn-cu13",
    "nvidia-cudnn-cu12",
)


def device_of(args):
    """The device that was asked for."""
    if args.device == "cuda" and not torch.cuda.is_available():
        raise RunError("PyTorch sees no CUDA device", "check nvidia-smi and torch.version.cuda, or use "
                                                      "--device cpu")
    return torch.device("cuda", torch.cuda.current_device()) if args.device == "cuda" else torch.device("cpu")


def set_arithmetic(args):
    """TF32 as Meta's benchmark has it beside bfloat16: allowed, also in fp16; fp32 is strict unless
    TF32 was asked for."""
    tf32 = args.tf32 or args.precision != "fp32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    if args.threads:
        torch.set_num_threads(args.threads)


def processor():
    """The processor's name as the kernel gives it."""
    for line in _read("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return "unknown processor"


def device_name(device):
    """The device column."""
    if device.type == "cuda":
        return torch.cuda.get_device_name()
    return f"cpu: {processor()} ({len(os.sched_getaffinity(0))} processors)"


def facts(device):
    """Facts for the sidecar."""
    system = next((x for x in _read("/etc/os-release").splitlines() if x.startswith("PRETTY_NAME=")), "=")
    memory = next((x for x in _read("/proc/meminfo").splitlines() if x.startswith("MemTotal:")), ":")
    governor = _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip()
    known = {
        "segtrt": __version__,
        "commit": _commit(),
        "hostname": platform.node(),
        "system": system.split("=", 1)[1].strip('"') or None,
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "processor": processor(),
        "processors": len(os.sched_getaffinity(0)),
        "frequency_governor": governor or None,
        "memory": memory.split(":", 1)[1].strip() or None,
        "python": platform.python_version(),
        "packages": versions(),
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        known["cuda"] = torch.version.cuda
        known["cudnn"] = torch.backends.cudnn.version()
        known["compute_capability"] = f"{properties.major}.{properties.minor}"
    known["inductor_cache"] = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    return known


def versions():
    """Installed packages that have a part in the numbers."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def reset_peak_rss():
    """Lets VmHWM begin anew, where the kernel permits it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def peak_rss_mib():
    """Highest resident set size since then, MiB."""
    line = next((x for x in _read("/proc/self/status").splitlines() if x.startswith("VmHWM:")), None)
    return int(line.split()[1]) / 1024 if line else None


def _commit():
    if not (REPOSITORY / ".git").exists():
        return None  # installed: a repository around it is somebody else's
    try:
        asked = ["git", "-C", str(REPOSITORY), "rev-parse", "--short=12", "HEAD"]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip() or None
    except (OSError, subprocess.CalledProcessError):
        return None


def _read(path):
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""

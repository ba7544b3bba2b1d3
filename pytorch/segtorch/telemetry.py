"""The GPU's sensors during a pass, by NVML where the package nvidia-ml-py is installed.

The record is the one of segtrt's `observed`; what a board does not tell is None. A thread reads
every 100 ms, and once at both ends of a pass; its calls into NVML do not hold Python's lock.
"""

import os
import threading
import time
import warnings

MIB = float(1 << 20)
MEMBERS = (
    "seconds",
    "readings",
    "power_mean_w",
    "power_max_w",
    "energy_j",
    "sm_clock_min_mhz",
    "sm_clock_mean_mhz",
    "sm_clock_max_mhz",
    "memory_clock_mhz",
    "temperature_max_c",
    "utilisation_percent",
    "limits",
    "other_processes",
    "process_memory_mib",
    "device_memory_mib",
)
# NVML's bits and segtrt's words, in the order in which they are told.
LIMITS = (
    (0x4, "power_cap"),
    (0x20, "thermal"),
    (0x40, "thermal_hw"),
    (0x80, "power_brake"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x2, "clocks_setting"),
    (0x100, "display_setting"),
)


class Telemetry:
    """Sensors of PyTorch's current GPU. `mark()` begins a window, `since()` ends it with the record."""

    def __init__(self, period_ms):
        import pynvml
        import torch

        pynvml.nvmlInit()
        self.nvml, self.period = pynvml, period_ms / 1e3
        self.handle = self._find(torch.cuda.get_device_properties(torch.cuda.current_device()))
        self.window, self.lock = None, threading.Lock()
        self.stop = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _find(self, properties):
        """PyTorch's device as NVML knows it: numbers differ under CUDA_VISIBLE_DEVICES."""
        uuid = getattr(properties, "uuid", None)
        if uuid is not None:
            uuid = f"GPU-{uuid}"
            for form in (uuid, uuid.encode()):
                try:
                    return self.nvml.nvmlDeviceGetHandleByUUID(form)
                except (self.nvml.NVMLError, TypeError, AttributeError):
                    continue
        return self.nvml.nvmlDeviceGetHandleByIndex(0)

    def facts(self):
        """What the sidecar says of the board."""
        n, h = self.nvml, self.handle
        text = lambda v: v.decode() if isinstance(v, bytes) else v
        facts = {
            "source": "NVML",
            "driver": self._ask(lambda: text(n.nvmlSystemGetDriverVersion())),
            "name": self._ask(lambda: text(n.nvmlDeviceGetName(h))),
            "uuid": self._ask(lambda: text(n.nvmlDeviceGetUUID(h))),
            "power_limit_w": self._ask(lambda: n.nvmlDeviceGetEnforcedPowerLimit(h) / 1e3),
            "sm_clock_max_mhz": self._ask(lambda: n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_SM)),
            "persistence_mode": self._ask(lambda: bool(n.nvmlDeviceGetPersistenceMode(h))),
        }
        return {name: value for name, value in facts.items() if value is not None}

    def mark(self):
        """Begins a window."""
        window = Window(time.perf_counter(), self._read(True))
        with self.lock:
            self.window = window

    def since(self):
        """Ends it: segtrt's record of a pass."""
        reading = self._read(True)
        with self.lock:
            window, self.window = self.window, None
        window.push(time.perf_counter(), reading)
        return window.observed()

    def _watch(self):
        count = 0
        while not self.stop.wait(self.period):
            if self.window is None:
                continue
            reading = self._read(count % 10 == 0)
            count += 1
            with self.lock:
                if self.window is not None:
                    self.window.push(time.perf_counter(), reading)

    def _ask(self, question):
        try:
            return question()
        except (self.nvml.NVMLError, AttributeError):
            return None

    def _read(self, thorough):
        n, h = self.nvml, self.handle
        reasons = getattr(n, "nvmlDeviceGetCurrentClocksThrottleReasons", None) or getattr(
            n, "nvmlDeviceGetCurrentClocksEventReasons", None
        )
        reading = {
            "power_w": self._ask(lambda: n.nvmlDeviceGetPowerUsage(h) / 1e3),
            "energy_j": self._ask(lambda: n.nvmlDeviceGetTotalEnergyConsumption(h) / 1e3),
            "sm_clock_mhz": self._ask(lambda: float(n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM))),
            "memory_clock_mhz": self._ask(lambda: float(n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_MEM))),
            "temperature_c": self._ask(lambda: float(n.nvmlDeviceGetTemperature(h, n.NVML_TEMPERATURE_GPU))),
            "utilisation_percent": self._ask(lambda: float(n.nvmlDeviceGetUtilizationRates(h).gpu)),
            "limits": self._ask(lambda: int(reasons(h))),
        }
        if thorough:
            reading["device_memory_mib"] = self._ask(lambda: n.nvmlDeviceGetMemoryInfo(h).used / MIB)
            processes = self._ask(lambda: n.nvmlDeviceGetComputeRunningProcesses(h))
            if processes is not None:
                reading |= company(processes, os.getpid())
        return reading


def company(processes, own_pid):
    """Who computes on the GPU: others beside this process, and the memory of this one, as segtrt
    tells them."""
    pids = {process.pid for process in processes}
    mine = [p for p in processes if p.pid == own_pid]
    if not mine and len(processes) == 1:
        # A container shows the host's numbers; the only process there is must be this one.
        mine = processes
    used = [p.usedGpuMemory for p in mine]
    known = bool(used) and all(bytes_ is not None for bytes_ in used)
    return {
        "other_processes": len(pids) - 1 if pids else None,
        "process_memory_mib": sum(used) / MIB if known else None,
    }


class Window:
    """Readings folded into one record; the first one counts for time, energy, memory and processes alone."""

    def __init__(self, at, reading):
        self.start = self.last = at
        self.first_j = self.last_j = reading.get("energy_j")
        self.last_w = reading.get("power_w")
        self.integral, self.integrated, self.readings, self.limits = 0.0, 0.0, 0, None
        self.seen = {}
        self._company(reading)

    def _add(self, name, value):
        if value is not None:
            self.seen.setdefault(name, []).append(value)

    def _company(self, reading):
        for name in ("process_memory_mib", "device_memory_mib", "other_processes"):
            self._add(name, reading.get(name))

    def push(self, at, reading):
        """Adds a reading."""
        passed, now_w = at - self.last, reading.get("power_w")
        if self.last_w is not None and now_w is not None:
            self.integral += 0.5 * (self.last_w + now_w) * passed
            self.integrated += passed
        self.last, self.last_w = at, now_w
        self.last_j = reading["energy_j"] if reading.get("energy_j") is not None else self.last_j
        self.readings += 1
        for name in ("power_w", "sm_clock_mhz", "memory_clock_mhz", "temperature_c", "utilisation_percent"):
            self._add(name, reading.get(name))
        if reading.get("limits") is not None:
            self.limits = (self.limits or 0) | reading["limits"]
        self._company(reading)

    def observed(self):
        """The record."""
        seconds = self.last - self.start
        counted = None if None in (self.first_j, self.last_j) else self.last_j - self.first_j
        covered = self.integrated > 0 and self.integrated >= 0.99 * seconds
        energy = counted if counted and counted > 0 else self.integral if covered else None
        mean = lambda name: sum(self.seen[name]) / len(self.seen[name]) if name in self.seen else None
        most = lambda name: max(self.seen[name], default=None) if name in self.seen else None
        power = energy / seconds if energy is not None and seconds > 0 else mean("power_w")
        values = (
            seconds,
            self.readings,
            power,
            most("power_w"),
            energy,
            min(self.seen["sm_clock_mhz"]) if "sm_clock_mhz" in self.seen else None,
            mean("sm_clock_mhz"),
            most("sm_clock_mhz"),
            mean("memory_clock_mhz"),
            most("temperature_c"),
            mean("utilisation_percent"),
            None if self.limits is None else [word for bit, word in LIMITS if self.limits & bit],
            most("other_processes"),
            most("process_memory_mib"),
            most("device_memory_mib"),
        )
        return dict(zip(MEMBERS, values, strict=True))


def beside_idle(seen, waiting):
    """Sensors beside so many processes that have the GPU open and wait for their turn: these do not
    compute."""
    if not waiting:
        return seen
    others = seen["other_processes"]
    return seen | {"other_processes": others and max(0, others - waiting), "idle_processes": waiting}


def start(period_ms, say):
    """Sensors of the GPU, or None with a word why."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Telemetry(period_ms)
    except ImportError:
        say("no power, clocks or throttling in the rows: pip install nvidia-ml-py")
    except Exception as error:  # NVML has an exception class for each of its errors
        say(f"no power, clocks or throttling in the rows: {error}")
    return None

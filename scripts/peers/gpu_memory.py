"""The memory of a GPU that is in use while a program runs, as NVML, the library behind nvidia-smi, reports it."""

import ctypes
import threading

LIBRARIES = ("libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1")
PERIOD_S = 0.01


class MemoryInfo(ctypes.Structure):
    """nvmlMemory_t, in bytes."""

    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


def reader_of(device):
    """A function that returns the used bytes of cuda:N, or None if NVML or the GPU is missing."""
    kind, _, number = device.partition(":")
    if kind != "cuda":
        return None
    for name in LIBRARIES:
        try:
            nvml = ctypes.CDLL(name)
        except OSError:
            continue
        handle = ctypes.c_void_p()
        if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(int(number or 0)), ctypes.byref(handle)):
            return None

        def used(nvml=nvml, handle=handle):
            info = MemoryInfo()
            return None if nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(info)) else info.used
        return used
    return None


class GpuMemory:
    """with GpuMemory("cuda:0") as memory: ...; then memory.figures().

    All programs of the GPU count, their contexts included. The figures are None for a CPU and without NVML.
    """

    def __init__(self, device):
        self.read, self.ended, self.thread = reader_of(device), threading.Event(), None
        self.before, self.peak = None, None

    def __enter__(self):
        if self.read:
            self.before = self.peak = self.read()
            self.thread = threading.Thread(target=self._poll, daemon=True)
            self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        if self.thread:
            self.thread.join()

    def _poll(self):
        while not self.ended.wait(PERIOD_S):
            self.peak = max(self.peak or 0, self.read() or 0)

    def figures(self):
        """before_bytes, peak_bytes, and used_bytes, their difference."""
        used = None if self.before is None else self.peak - self.before
        return {"before_bytes": self.before, "peak_bytes": self.peak, "used_bytes": used}

"""A kernel with a known error, under the name of one of this program's: what a sanitizer must find,
or its "nothing found" says nothing.

compute-sanitizer --tool racecheck --kernel-name kne=mask_words python3
lab/sanitize/sanitizer_control.py racecheck

racecheck: each of two warps reads the words of shared memory that the other writes, with no barrier
between. memcheck: it writes a megabyte behind 256 bytes of device memory. It needs the driver
alone. Exit code 0: it was launched and ended; 1: the driver refused something, which under memcheck
is the launch itself.
"""

import ctypes
import sys

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry mask_words(.param .u64 to)
{
    .reg .b32 %r<6>;
    .reg .b64 %rd<3>;
    .shared .align 4 .b32 cells[64];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, cells;
    shl.b32 %r2, %r0, 2;
    add.u32 %r3, %r1, %r2;
    st.shared.u32 [%r3], %r0;
    sub.u32 %r4, %r1, %r2;
    ld.shared.u32 %r5, [%r4+252];
    ld.param.u64 %rd0, [to];
    cvta.to.global.u64 %rd1, %rd0;
    st.global.u32 [%rd1], %r5;
    ret;
}
"""
BEYOND = {"racecheck": 0, "memcheck": 1 << 20}  # bytes from the memory's beginning to where it writes


def main(tool):
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as why:
        sys.exit(f"no NVIDIA driver: {why}; run it on a machine with a GPU")

    def call(name, *arguments):
        code = getattr(cuda, name)(*arguments)
        if code:
            sys.exit(f"{name} gave CUDA error {code}")

    device, context, module, function = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(
    ), ctypes.c_void_p()
    memory = ctypes.c_uint64()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), PTX)
    call("cuModuleGetFunction", ctypes.byref(function), module, b"mask_words")
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(256))
    to = ctypes.c_uint64(memory.value + BEYOND[tool])
    values = (ctypes.c_void_p * 1)(ctypes.addressof(to))
    call("cuLaunchKernel", function, 1, 1, 1, 64, 1, 1, 0, None, values, None)
    call("cuCtxSynchronize")
    print("launched a kernel with an error for", tool)


if __name__ == "__main__":
    if sys.argv[1:] not in [[tool] for tool in BEYOND]:
        sys.exit(f"expected one of {', '.join(BEYOND)}")
    main(sys.argv[1])

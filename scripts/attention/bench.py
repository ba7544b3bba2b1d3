"""Builds the attention kernels, checks them against float64 and times them beside torch on one GPU.

    python3 scripts/attention/bench.py --family base|hopper [--out DIR] [--quick] [--only NAME] [--check-only] [--profile] [--dry]

The families run in processes of their own, so that a fault of one leaves the other's results alone.
`--dry` runs everything that needs no GPU (compilation, references, tables) with the results faked.
"""

import argparse
import ctypes
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from variants import CASES, HOPPER, SHAPES, SHIPPED, VARIANTS, WIDTHS

HERE = Path(__file__).resolve().parent
# The kernels lie beside this file, or in cuda/ of the checkout that this file is part of.
SOURCES = HERE if (HERE / "attention.cu").exists() else HERE.parents[1] / "cuda"


def chunks(columns):
    """Chunks of 64 columns that hold so many."""
    return -(-columns // 64)


class Kernel:
    """One instance: its function, its shape constants and the shared memory it asks for."""

    def __init__(self, name, constants, function, combine, dry):
        self.name, self.function, self.combine = name, function, combine
        if len(constants) == 7:  # Hopper
            self.width, groups, keys, self.dv, slots, _, _ = constants
            self.threads, self.queries, self.keys, self.resident = (groups + 1) * 128, groups * 64, keys, 1
            self.shared = self.queries * chunks(self.width) * 128 + slots * keys * 128 + 4 * keys * 4 + slots * 16
        else:
            self.width, warps, blocks, keys, self.dv, slots, _, _, self.resident = constants
            self.threads, self.queries, self.keys = warps * 32, warps * blocks * 16, keys
            self.shared = self.queries * chunks(self.width) * 128 + slots * keys * 128 + 2 * keys * 4
        if not dry:
            check("cuFuncSetAttribute", CUDA.cuFuncSetAttribute(function, 8, ctypes.c_int(self.shared)))
            count = ctypes.c_int()
            check("cuOccupancy", CUDA.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                ctypes.byref(count), function, self.threads, ctypes.c_size_t(self.shared)))
            self.resident = count.value

    def splits(self, m, n, multiprocessors, batch=1):
        """Numbers of key parts worth trying: fill the GPU once, twice, and nearly once."""
        rows = -(-m // self.queries) * batch
        once = max(1, self.resident * multiprocessors // rows)
        tiles = -(-n // self.keys)
        return sorted({min(max(1, s), tiles) for s in (1, once // 2, once, 2 * once) if s == 1 or s * rows >= multiprocessors // 2})

    def launch(self, q, k, v, bias, out, partial, stats, splits, stream):
        batch, m, n = q.shape[0], q.shape[1], k.shape[1]
        arguments = [q, k, v, bias, out, partial, stats, m, n]
        if self.name.startswith("attention_heads"):  # these are told where heads lie; here in tensors of their own
            arguments += [self.width, self.width, m * self.width, n * self.width, self.dv, m * self.dv]
        call(self.function, (-(-m // self.queries), splits, batch), self.threads, self.shared, stream, arguments)
        if splits > 1:
            items = batch * m * self.dv // 4
            call(self.combine, (-(-items // 256), 1, 1), 256, 0, stream, [partial, stats, out, batch * m, m, splits, self.dv, self.dv, m * self.dv])


def check(what, code):
    if code:
        text = ctypes.c_char_p()
        CUDA.cuGetErrorString(code, ctypes.byref(text))
        raise RuntimeError(f"{what}: CUDA error {code}: {text.value.decode() if text.value else '?'}")


def call(function, grid, threads, shared, stream, arguments):
    values = []
    for a in arguments:
        if a is None or isinstance(a, torch.Tensor):
            values.append(ctypes.c_void_p(0 if a is None else a.data_ptr()))
        else:
            values.append(ctypes.c_int(a))
    pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
    check("cuLaunchKernel", CUDA.cuLaunchKernel(function, *grid, threads, 1, 1, shared, ctypes.c_void_p(stream), pointers, None))


def build(dry, family, only):
    """Compiles every variant by nvcc for this GPU, in parallel; prints registers and spills."""
    nvcc = os.environ.get("NVCC") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not Path(nvcc).exists():
        sys.exit(f"no CUDA compiler: {nvcc} does not exist; set NVCC to the path of nvcc")
    arch = "sm_90" if dry else "sm_%d%d" % torch.cuda.get_device_capability()
    folder = Path(os.environ.get("ATTENTION_BUILD", "/tmp/attention_build"))
    folder.mkdir(parents=True, exist_ok=True)

    def one(name):
        hopper = name in HOPPER
        c = HOPPER[name] if hopper else VARIANTS[name]
        file, macro = ("attention_hopper.cu", "ATTENTION_HOPPER") if hopper else ("attention.cu", "ATTENTION")
        target = "-gencode=arch=compute_90a,code=sm_90a" if hopper else f"-arch={arch}"
        source = folder / f"{name}.cu"
        source.write_text(f'#define ATTENTION_NO_INSTANCES\n#include "{SOURCES}/{file}"\n'
                          f"{macro}({name}, {', '.join(map(str, c))})\n")
        cubin = folder / f"{name}.cubin"
        done = subprocess.run([nvcc, "-cubin", target, "-O3", "-std=c++17", "-lineinfo", "-Xptxas", "-v", "-o", str(cubin), str(source)],
                              capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{name} did not compile:\n{done.stdout}{done.stderr}")
        log = done.stdout + done.stderr
        part = log[log.find(f"'{name}'"):]
        if "C7514" in log or "C7510" in log:
            print(f"{name}: the compiler serialises wgmma")
        registers = re.search(r"Used (\d+) registers", part)
        spills = re.search(r"(\d+) bytes spill stores", part)
        return name, cubin.read_bytes(), int(registers.group(1)), int(spills.group(1))

    kernels, registers = [], {}
    hopper_family = family == "hopper"
    if hopper_family and arch != "sm_90":
        sys.exit(f"the Hopper kernels need a GPU of compute capability 9.0, found {arch}; use --family base")
    names = [n for n in (HOPPER if hopper_family else VARIANTS) if not only or re.search(only, n)]
    combines = None
    ptx = (SOURCES / "attention.ptx").read_bytes() + b"\0"
    if not dry:
        module = ctypes.c_void_p()
        check("cuModuleLoadData attention.ptx", CUDA.cuModuleLoadData(ctypes.byref(module), ptx))
        combines = {dv: function_of(module, f"attention_combine_{dv}") for dv in (64, 80, 96, 128, 256)}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, image, used, spilled in pool.map(one, names):
            registers[name] = (used, spilled)
            kernels += load(image, {name: HOPPER.get(name) or VARIANTS[name]}, combines, dry)
    for file, instances in SHIPPED.items():
        instances = {n: c for n, c in instances.items() if not only or re.search(only, n)}
        if instances and (file == "attention_hopper.ptx") == hopper_family:
            kernels += load((SOURCES / file).read_bytes() + b"\0", instances, combines, dry)
    return kernels, registers


def function_of(module, name):
    function = ctypes.c_void_p()
    check(f"cuModuleGetFunction {name}", CUDA.cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
    return function


def load(image, instances, combines, dry):
    if dry:
        return [Kernel(name, c, None, None, dry) for name, c in instances.items()]
    module = ctypes.c_void_p()
    check(f"cuModuleLoadData {list(instances)}", CUDA.cuModuleLoadData(ctypes.byref(module), image))
    return [Kernel(name, c, function_of(module, name), combines[c[3 if len(c) == 7 else 4]], dry)
            for name, c in instances.items()]


def inputs(device, width, dv, m, n, bias, scale=1.0, batch=1, seed=0):
    """Random Q, K, V in f16; `scale` 1 gives logits of unit deviation. `bias`: None or a kind of padding."""
    g = torch.Generator(device=device).manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=g, device=device)

    q = (draw(batch, m, width) * (scale / width**0.5)).half()
    k, v = draw(batch, n, width).half(), draw(batch, n, dv).half()
    b = None
    if bias:
        b = torch.zeros(n, device=device)
        if bias == "first":
            b[: n // 2] = -1e4
        elif bias == "some":
            b[torch.rand(n, generator=g, device=device) < 0.6] = -1e4
        elif bias == "random":
            b = draw(n).float()
        elif bias == "last":
            b[n - n // 3 :] = -1e4
    return q, k, v, b


def reference(q, k, v, bias):
    """float64, a part of the queries after the other."""
    parts = []
    for part in q.double().split(512, dim=1):
        s = part @ k.double().transpose(1, 2)
        if bias is not None:
            s = s + bias.double()
        parts.append(torch.softmax(s, dim=-1) @ v.double())
    return torch.cat(parts, dim=1)


def verify(kernels, device, dry, multiprocessors, quick):
    """Every kernel, every case, every number of splits; the outputs are poisoned before each run."""
    failures, worst = 0, {}
    cases = CASES[:3] if quick else CASES
    for width, dv in WIDTHS:
        for number, (m, n, bias, scale, batch) in enumerate(cases):
            if dry and n > 5000:
                continue
            if (width, dv) != (256, 64) and n > 10000:
                continue
            q, k, v, b = inputs(device, width, dv, m, n, bias, scale, batch, seed=100 + number)
            truth = reference(q, k, v, b)
            for kernel in (x for x in kernels if (x.width, x.dv) == (width, dv)):
                for splits in sorted({1, 2, 3, *kernel.splits(m, n, multiprocessors, batch)}):
                    out = torch.full((batch, m, dv), float("nan"), device=device, dtype=torch.float16)
                    partial = torch.full((batch * splits * m * dv,), float("nan"), device=device)
                    stats = torch.full((batch * splits * m * 2,), float("nan"), device=device)
                    if dry:
                        out = truth.half()
                    else:
                        kernel.launch(q, k, v, b, out, partial, stats, splits, torch.cuda.current_stream().cuda_stream)
                        torch.cuda.synchronize()
                    error = out.double() - truth
                    relative = (error.norm() / truth.norm()).item()
                    largest = error.abs().max().item()
                    good = relative < 2e-3 and largest < 1e-2
                    failures += not good
                    old = worst.get(kernel.name, (0.0, 0.0))
                    worst[kernel.name] = (max(old[0], relative), max(old[1], largest))
                    if not good:
                        print(f"WRONG {kernel.name} m {m} n {n} bias {bias} scale {scale} batch {batch} splits {splits}: "
                              f"relative {relative:.2e}, largest {largest:.2e}", flush=True)
    return failures, worst


def time_graph(work, sets, dry):
    """Median milliseconds of one call, from replays of a CUDA graph that walks over the input sets (more than the L2 holds)."""
    if dry:
        return 1.0
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for s in sets:
            work(s)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        calls = 2 * len(sets)
        with torch.cuda.graph(graph, stream=stream):
            for i in range(calls):
                work(sets[i % len(sets)])
        for _ in range(3):
            graph.replay()
        times = []
        for _ in range(25):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / calls)
    return statistics.median(times)


def torch_rows(sets, columns, dv, with_bias, dry):
    """torch.nn.functional.scaled_dot_product_attention with each backend, V as it is and padded to the width of Q."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    rows = []
    for backend in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH"):
        for width in sorted({dv, columns}):
            padded = []
            for s in sets:
                v = torch.nn.functional.pad(s["v"], (0, width - dv))
                mask = s["b"].half().view(1, 1, 1, -1).expand(1, 1, s["q"].shape[1], -1) if with_bias else None
                padded.append((s["q"].unsqueeze(1), s["k"].unsqueeze(1), v.unsqueeze(1), mask))

            def work(s):
                return torch.nn.functional.scaled_dot_product_attention(s[0], s[1], s[2], attn_mask=s[3], scale=1.0)

            try:
                with sdpa_kernel(getattr(SDPBackend, backend)):
                    milliseconds = time_graph(work, padded, dry)
                rows.append((f"torch {backend.lower()} v{width}", milliseconds))
            except Exception as error:  # a backend that cannot take the shape says so; its row says it too
                rows.append((f"torch {backend.lower()} v{width}", None))
                print(f"  torch {backend} v{width}: {str(error).splitlines()[0][:100]}", flush=True)
            if not dry:
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
    return rows


def measure(kernels, device, dry, multiprocessors, quick):
    table = []
    for shape, (width, dv, batch, m, n, with_bias) in list(SHAPES.items())[: 3 if quick else None]:
        if dry and n > 5000:
            n = 5000
        if not any((x.width, x.dv) == (width, dv) for x in kernels):
            continue  # --only chose none for it
        gigaflops = 2 * batch * m * n * (width + dv) / 1e9
        sets = []
        for i in range(4):
            q, k, v, b = inputs(device, width, dv, m, n, "last" if with_bias else None, 1, batch, seed=i)
            sets.append({"q": q, "k": k, "v": v, "b": b, "out": torch.empty(batch, m, dv, device=device, dtype=torch.float16)})
        for kernel in (x for x in kernels if (x.width, x.dv) == (width, dv)):
            # A block alone would leave most of the GPU idle, but heads may be as many as it holds.
            for splits in (s for s in kernel.splits(m, n, multiprocessors, batch) if s > 1 or batch > 1):
                partial = torch.empty(batch * splits * m * dv, device=device)
                stats = torch.empty(batch * splits * m * 2, device=device)

                def work(s):
                    kernel.launch(s["q"], s["k"], s["v"], s["b"], s["out"], partial, stats, splits, torch.cuda.current_stream().cuda_stream)

                milliseconds = time_graph(work, sets, dry)
                table.append({"shape": shape, "what": kernel.name, "splits": splits, "resident": kernel.resident,
                              "ms": milliseconds, "tflops": gigaflops / milliseconds})
        for what, milliseconds in torch_rows(sets, width, dv, with_bias, dry):
            table.append({"shape": shape, "what": what, "splits": 0, "resident": 0, "ms": milliseconds,
                          "tflops": gigaflops / milliseconds if milliseconds else None})
        best = min((r for r in table if r["shape"] == shape and r["ms"]), key=lambda r: r["ms"])
        print(f"{shape}: best {best['what']} x{best['splits']} {best['ms']:.4f} ms {best['tflops']:.0f} TFLOP/s", flush=True)
    return table


def profile(kernels, multiprocessors):
    for kernel in kernels:
        width, dv, batch, m, n, _ = next(s for s in SHAPES.values() if s[:2] == (kernel.width, kernel.dv))
        q, k, v, _ = inputs("cuda", width, dv, m, n, None, 1, batch)
        splits = max(1, kernel.resident * multiprocessors // (-(-m // kernel.queries) * batch))
        out = torch.empty(batch, m, dv, device="cuda", dtype=torch.float16)
        partial = torch.empty(batch * splits * m * dv, device="cuda")
        stats = torch.empty(batch * splits * m * 2, device="cuda")
        for _ in range(3):
            kernel.launch(q, k, v, None, out, partial, stats, splits, torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
    return 0


def main():
    global CUDA
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    parser.add_argument("--family", choices=("base", "hopper"), default="base")
    parser.add_argument("--profile", action="store_true", help="launch each kernel three times on its largest shape, for ncu")
    parser.add_argument("--quick", action="store_true", help="three cases and three shapes")
    parser.add_argument("--only", default="", help="variants whose name matches this expression")
    parser.add_argument("--check-only", action="store_true", help="no timing")
    parser.add_argument("--dry", action="store_true", help="no GPU: compile, references and tables only")
    args = parser.parse_args()
    began = time.time()
    warnings.filterwarnings("ignore")  # torch says at length why a backend does not take a shape; its row says that it does not
    device = "cpu" if args.dry else "cuda"
    if args.dry:
        multiprocessors, name = 132, "none (dry run)"
    else:
        torch.cuda.init()
        torch.zeros(1, device="cuda")
        CUDA = ctypes.CDLL("libcuda.so.1")
        properties = torch.cuda.get_device_properties(0)
        multiprocessors, name = properties.multi_processor_count, properties.name
    print(f"{name}, {multiprocessors} multiprocessors, torch {torch.__version__}", flush=True)
    kernels, registers = build(args.dry, args.family, args.only)
    for kernel in kernels:
        used = registers.get(kernel.name, ("?", "?"))
        print(f"  {kernel.name}: {used[0]} registers, {used[1]} bytes spilled, {kernel.shared} bytes shared, {kernel.resident} blocks an SM")
    print(f"built in {time.time() - began:.0f} s", flush=True)
    if args.profile:
        return profile(kernels, multiprocessors)
    failures, worst = verify(kernels, device, args.dry, multiprocessors, args.quick)
    print(f"checked: {failures} failures ({time.time() - began:.0f} s)")
    if args.check_only:
        return 1 if failures else 0
    table = measure(kernels, device, args.dry, multiprocessors, args.quick)
    print(f"{'shape':<18}{'what':<34}{'splits':>7}{'ms':>9}{'TFLOP/s':>9}  worst relative, absolute error")
    for shape in SHAPES:
        rows = [r for r in table if r["shape"] == shape]
        for r in sorted(rows, key=lambda r: r["ms"] or 1e9):
            numbers = f"{r['ms']:9.4f}{r['tflops']:9.1f}" if r["ms"] else f"{'-':>9}{'-':>9}"
            error = "  %.1e %.1e" % worst[r["what"]] if r["what"] in worst else ""
            print(f"{shape:<18}{r['what']:<34}{r['splits'] or '':>7}{numbers}{error}")
    Path(args.out).mkdir(parents=True, exist_ok=True)
    (Path(args.out) / f"attention_{args.family}.json").write_text(json.dumps(
        {"device": name, "failures": failures, "registers": registers, "errors": worst, "table": table}, indent=1))
    print(f"{failures} failures, {time.time() - began:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

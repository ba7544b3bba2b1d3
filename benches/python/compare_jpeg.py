"""Times this program's JPEG decoding (libjpeg-turbo on threads) and NVIDIA's nvJPEG (by
torchvision) on the same frames, in turn.

    cargo build --release --example decode_frames
python benches/python/compare_jpeg.py --split SA_V_SPLIT [--rounds 15] [--decoder
target/release/examples/decode_frames]

Files are in the page cache. Our side ends with pixels in host memory, nvJPEG's with pixels in
device memory; what our side's copy to the device takes is told beside it; our side decodes into
memory that was there before, torchvision allocates its own. A row is the median and the quartiles
over the rounds. The last line says by how much the two decoders' pixels differ: ours are Pillow's,
which Meta's loader uses.
"""

import argparse
import pathlib
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).parents[2]


class Threads:
    """The decoder as a child process that times itself."""

    def __init__(self, program, files):
        pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([program, *map(str, files)], **pipe)

    def ask(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the decoder ended with {self.process.wait()}")
        return answer.split()

    def frames_per_s(self, threads, count):
        return count / (int(self.ask(threads)[0]) * 1e-9)


class NvJpeg:
    """nvJPEG through torchvision, whose batches share one stream."""

    def __init__(self, files):
        import torch
        import torchvision

        self.torch, self.io, self.files = torch, torchvision.io, files
        self.name = f"nvJPEG (torchvision {torchvision.__version__}, {torch.cuda.get_device_name(0)})"

    def decode(self, batch):
        torch, made = self.torch, []
        for i in range(0, len(self.files), batch):
            coded = [self.io.read_file(str(path)) for path in self.files[i : i + batch]]
            made += self.io.decode_jpeg(coded, mode=self.io.ImageReadMode.RGB, device="cuda")
        torch.cuda.synchronize()
        return made

    def frames_per_s(self, batch, count):
        start = time.perf_counter()
        self.decode(batch)
        return count / (time.perf_counter() - start)

    def upload_ms(self, shape):
        """Milliseconds in which a frame in pinned memory reaches the device."""
        torch = self.torch
        pinned = torch.empty(shape, dtype=torch.uint8).pin_memory()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        times = []
        for _ in range(50):
            begin.record()
            pinned.to("cuda", non_blocking=True)
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end))
        return statistics.median(times)


def row(name, values):
    low, middle, high = statistics.quantiles(values, n=4)
    print(f"| {name} | {middle:.0f} | {low:.0f} to {high:.0f} |", flush=True)


def differences(threads, nvjpeg, files):
    import numpy as np

    with tempfile.NamedTemporaryFile() as saved:
        width, height = map(int, threads.ask(f"save {saved.name}"))
        ours = np.frombuffer(pathlib.Path(saved.name).read_bytes(), np.uint8).reshape(height, width,
                                                                                      3).astype(int)
    theirs = nvjpeg.decode(1)[0].permute(1, 2, 0).cpu().numpy().astype(int)
    gap = np.abs(ours - theirs)
    print(f"{files[0].name}: {np.mean(gap > 0):.1%} of the bytes differ, by {gap.mean():.2f} grey levels "
          f"in the mean and {gap.max()} at most")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--split", required=True, type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", default="1,4,8,16")
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--decoder", default=str(ROOT / "target/release/examples/decode_frames"))
    args = parser.parse_args()
    files = sorted((args.split / "JPEGImages_24fps").glob("*/*.jpg"))
    if not files:
        raise SystemExit(f"{args.split}/JPEGImages_24fps holds no CLIP/*.jpg")
    threads = Threads(args.decoder, files)
    sides = [(f"libjpeg-turbo, {n} threads", threads, int(n)) for n in args.threads.split(",")]
    nvjpeg = None
    try:
        nvjpeg = NvJpeg(files)
        nvjpeg.decode(8)
        sides += [(f"nvJPEG, batches of {n}", nvjpeg, int(n)) for n in args.batches.split(",")]
        print(nvjpeg.name)
    except (ImportError, RuntimeError, AssertionError) as error:
        nvjpeg = None
        print(f"nvJPEG: not measured ({error})")
    measured = {name: [] for name, _, _ in sides}
    for name, side, how in sides:
        side.frames_per_s(how, len(files))  # warm-up
    for number in range(args.rounds):
        for name, side, how in sides if number % 2 == 0 else reversed(sides):
            measured[name].append(side.frames_per_s(how, len(files)))
    print(f"\n{len(files)} frames, {args.rounds} rounds\n\n| decoder | frames a second | quartiles "
          f"|\n|---|--:|--:|")
    for name, values in measured.items():
        row(name, values)
    if nvjpeg:
        width, height = map(int, threads.ask("save /dev/null"))
        print(f"\na frame's copy from pinned memory to the device: "
              f"{nvjpeg.upload_ms((height, width, 3)):.3f} ms")
        differences(threads, nvjpeg, files)


if __name__ == "__main__":
    main()

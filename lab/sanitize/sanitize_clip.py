"""A clip under compute-sanitizer, which looks at this program's kernels alone.

    python3 lab/sanitize/sanitize_clip.py --tool memcheck --sanitizer compute-sanitizer -- segtrt bench …

TensorRT 8.6.0's own kernels read out of bounds under memcheck, and the clip ends there; so the
sanitizer is told the names of this program's. They are those of the entries in cuda/*.ptx, which is
what the program loads. The option for names was called `--kernel-regex` until it was renamed to
`--kernel-name`; which of them there is, `--help` tells.

TensorRT 8.6.0's runtime was built with a CUDA whose programs load all kernels of all libraries at
once, unless the variable CUDA_MODULE_LOADING is LAZY; a sanitizer rewrites what is loaded, whatever
it is told to check. So the variable is set, unless it is set already.

racecheck was never seen to end over a clip with TensorRT, with that variable neither: after the GPU
had been opened one processor was busy, and nothing was said until it was killed. A clip without
TensorRT it gets through (stand_in_engines.py). Twice a minute it is said how much of the processors
each process has had.

What it found counts by the words of its summary, not by an exit code: a bench that fails in a
worker has codes of its own. Exit code 0: the clip was run to its end and nothing was found; 9:
something was found; 1: no answer, for the clip did not end, or the sanitizer printed no summary.
Nothing found does not show that anything was looked at: a kernel that a clip does not launch is not
checked, and the sanitizer does not list what it checks; sanitizer_control.py is a program in which
it must find something.
"""

import argparse
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

CUDA = Path(__file__).resolve().parents[2] / "cuda"
FOUND, NO_ANSWER = 9, 1
BEAT = 30  # seconds
OPTIONS = ("--kernel-name", "--kernel-regex")  # the newer spelling first
# What it says of itself when it cannot check something; its summary counts no errors then.
TROUBLE = re.compile(r"^=+ .*(?:[Ii]nternal|terminated before|not supported|not be checked|[Ff]ailed "
                     r"to).*$", re.MULTILINE)
SUMMARY = re.compile(r"^=+ (?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)", re.MULTILINE)


class NoAnswer(Exception):
    """Why nothing can be said of the kernels."""


def kernels(cuda=CUDA):
    """The names of this program's kernels, of every PTX file that it ships."""
    names = []
    for path in sorted(Path(cuda).glob("*.ptx")):
        found = re.findall(r"^\s*(?:\.visible\s+)?\.entry\s+(\w+)", path.read_text(), re.MULTILINE)
        if not found:
            raise NoAnswer(f"{path}: no .entry in it")
        names += found
    if not names:
        raise NoAnswer(f"{cuda}: no *.ptx in it")
    return sorted(set(names))


def filters(told, names):
    """The arguments that restrict a sanitizer whose `--help` said `told` to these kernels: each may
    match alone."""
    option = next((option for option in OPTIONS if re.search(rf"{option}(?![\w-])", told)), None)
    if option is None:
        raise NoAnswer(f"the sanitizer's --help names neither {' nor '.join(OPTIONS)}; it said:\n{told}")
    return [word for name in names for word in (option, f"kne={name}")]


def errors(said):
    """How many errors or hazards its summaries count, of every process that it printed one for."""
    found = [int(memory or races) for memory, races in SUMMARY.findall(said)]
    if not found:
        raise NoAnswer("the sanitizer printed no summary")
    if not sum(found) and (trouble := TROUBLE.search(said)):
        raise NoAnswer(f"the sanitizer did not check everything: {trouble[0].strip('= ')}")
    return sum(found)


def family(root, proc=Path("/proc")):
    """(process, its name, seconds of processors, MiB) of `root` and all that it started, those that
    can be read."""
    found, tick, page = {}, os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    for path in proc.glob("[0-9]*/stat"):
        try:
            head, _, rest = path.read_text().rpartition(")")
        except OSError:
            continue  # it has ended
        number, _, name = head.partition(" (")
        fields = rest.split()  # from the state on: proc(5)
        cpu, mib = (int(fields[11]) + int(fields[12])) / tick, int(fields[21]) * page / 2**20
        found[int(number)] = (int(fields[1]), name, cpu, mib)
    mine, before = {root}, 0
    while len(mine) > before:
        before = len(mine)
        mine |= {number for number, (parent, *_) in found.items() if parent in mine}
    return [(number, *found[number][1:]) for number in sorted(mine) if number in found]


def tell_of(root, ended, begun=0):
    """Prints what becomes of the processes until `ended` is set."""
    while not ended.wait(BEAT):
        begun += BEAT
        told = "; ".join(f"{number} {name}: {cpu:.0f} s of processors, {mib:.0f} MiB"
                         for number, name, cpu, mib in family(root))
        print(f"after {begun} s: {told}", flush=True)


def run(tool, sanitizer, command, names):
    """Runs it, hands on what it says line by line; its exit code and all that it said."""
    asked = subprocess.run([sanitizer, "--help"], capture_output=True, text=True, timeout=120)
    words = [
        sanitizer, "--tool", tool, "--target-processes", "all", *filters(asked.stdout + asked.stderr, names)
    ]
    print("$", *words, *command, flush=True)
    environment = {"CUDA_MODULE_LOADING": "LAZY"} | os.environ
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    ended = threading.Event()
    with subprocess.Popen([*words, *command], env=environment, **pipes) as process:
        threading.Thread(target=tell_of, args=(process.pid, ended), daemon=True).start()
        said = []
        for line in process.stdout:
            print(line, end="", flush=True)
            said.append(line)
    ended.set()
    return process.returncode, "".join(said)


def main(arguments=None):
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--tool", required=True, choices=("memcheck", "racecheck"))
    p.add_argument("--sanitizer", required=True, metavar="FILE", help="compute-sanitizer")
    p.add_argument("command", nargs="+", help="what is run under it, behind --")
    args = p.parse_args(arguments)
    try:
        names = kernels()
        code, said = run(args.tool, args.sanitizer, args.command, names)
        found = errors(said)
    except (NoAnswer, OSError, subprocess.TimeoutExpired) as why:
        print(f"no answer: {why}", file=sys.stderr)
        return NO_ANSWER
    if found:
        print(f"{args.tool}: {found} found; the command ended with {code}")
        return FOUND
    if code:
        print(f"no answer: the command ended with {code}, and {args.tool} found nothing until then",
              file=sys.stderr)
        return NO_ANSWER
    print(f"{args.tool}: nothing found; looked for in {len(names)} kernels: {', '.join(names)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

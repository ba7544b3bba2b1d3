"""Asks each program of the jobs whether it knows its flags, before a machine is rented.

python3 lab/measure/check_jobs.py --segtrt target/release/segtrt

segtrt runs each command in an empty folder, where it soon ends with 1 for want of something. A
wrong flag or value ends it with 2. Scripts are asked for their --help. A script whose packages are
missing here is searched for the flags instead. Exit code 0: all flags are known; 1: not all.
"""

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import jobs

LIMIT = 20  # seconds; a command that works so long knew its flags
SHELL = ("for", "do", "done", "$")  # words that stand before or between commands
# Folders whose modules define flags of scripts that lie elsewhere.
SHARED = ("onnx/segexport", "pytorch/segtorch")


def commands(text):
    """The simple commands of a shell command, as words, without variables and redirections."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found = [[]]
    for word in lexer:
        if word in SHELL or set(word) <= set("();<>|&"):
            found.append([])
        elif found[-1] or not re.match(r"\w+=", word):
            found[-1].append(word)
    return [words for words in found if words]


def parts(words):
    """A command, and the one that stands behind its -- or that a sanitizer runs."""
    for at, word in enumerate(words):
        if at and word.endswith("/segtrt"):
            own = words[:at - 1] if words[at - 1] == "--" else words[:at]
            return [own, words[at:]]
    return [words]


def segtrt_fault(words, folder):
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, cwd=folder)
    except subprocess.TimeoutExpired:
        return ""
    return done.stderr.strip() if done.returncode == 2 else ""


def sources(script):
    """The text of a script and of the modules that may define its flags."""
    places = [script.parent, *(jobs.ROOT / place for place in SHARED)]
    return "".join(path.read_text() for place in places for path in sorted(place.glob("*.py")))


def script_fault(words):
    script = jobs.ROOT / words[1]
    if not script.is_file():
        return f"there is no {words[1]}"
    flags = {word.partition("=")[0] for word in words[2:] if re.match(r"--[a-z]", word)}
    if not flags:
        return ""
    step = words[2:3] if re.match(r"[a-z]+$", words[2]) else []
    asked = subprocess.run([sys.executable, script, *step, "--help"], capture_output=True, text=True)
    if asked.returncode == 0:
        known = set(re.findall(r"--[a-z][a-z0-9-]*", asked.stdout))
    elif "ModuleNotFoundError" in asked.stderr or "is missing" in asked.stderr:
        known = set(re.findall(r"[\"'](--[a-z][a-z0-9-]*)", sources(script)))
    else:
        return f"--help ended with {asked.returncode}: {asked.stderr.strip().splitlines()[-1:]}"
    return f"knows no {', '.join(sorted(flags - known))}" if flags - known else ""


def faults(listed, segtrt, folder):
    """(job, program, what it said) of each command that a program refuses; and how many were asked."""
    found, asked = [], set()
    for job in listed:
        for words in (part for words in commands(job.command) for part in parts(words)):
            if tuple(words) in asked:
                continue
            if words[0].endswith("/segtrt"):
                said = segtrt_fault([segtrt, *words[1:]], folder)
            elif words[0] == "python3":
                said = script_fault(words)
            else:
                continue
            asked.add(tuple(words))
            if said:
                found.append((job.name, " ".join(words[:2]), said))
    return found, len(asked)


def main(arguments=None):
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--segtrt", type=Path, required=True, metavar="FILE")
    args = p.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        found, count = faults(jobs.plan(Path(place)), str(args.segtrt.resolve()), Path(place))
    for job, program, said in found:
        print(f"{job}: {program}: {said}")
    print(f"{count} commands, {len(found)} refused")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""Whether the programs know the flags that a plan gives them: asked before anything runs, not found
out an hour later."""

import re
import subprocess


def subcommand(words, segtrt):
    """(program with its subcommand, flags) of a command or of the one behind its `--`; None where
    it is not segtrt's."""
    if segtrt not in words:
        return None
    words = words[words.index(segtrt) :]
    flags = [re.split("=", word)[0] for word in words[2:] if re.match(r"--[a-z]", word)]
    return tuple(words[:2]), set(flags)


def script(words, python):
    """The same of a Python program of the repository."""
    if words[0] != python or not words[1].endswith(".py"):
        return None
    steps = 3 if words[1].endswith("distil_encoder.py") else 2  # its help is that of its step
    own = words[: words.index("--")] if "--" in words else words
    return tuple(
        words[:steps]), {word.partition("=")[0]
                         for word in own[steps:]
                         if re.match(r"--[a-z]", word)}


def wanted(jobs, segtrt, python=None):
    """Program and subcommand -> flag -> one of the jobs that give it."""
    found = {}
    for job in jobs:
        words = job.command
        # What follows `profile --` is another subcommand's.
        cut = words.index("--") if "profile" in words[:2] and "--" in words else len(words)
        parts = [
            subcommand(words[:cut], segtrt),
            subcommand([segtrt, *words[cut + 1:]], segtrt) if cut < len(words) else None
        ]
        parts.append(script(words, python) if python else None)
        for part in filter(None, parts):
            for flag in part[1]:
                found.setdefault(part[0], {}).setdefault(flag, job.name)
    return found


def unknown(jobs, segtrt, python=None):
    """Sentences for flags that a program's --help does not name; `python` also asks the Python
    programs, which takes longer."""
    told = []
    for program, flags in sorted(wanted(jobs, str(segtrt), python).items()):
        try:
            done = subprocess.run([*program, "--help"], capture_output=True, text=True, timeout=120)
        except (OSError, subprocess.TimeoutExpired) as error:
            told.append(f"{' '.join(program)} --help: {error}")
            continue
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no word"])[-1]
            told.append(f"{' '.join(program)} --help ended with {done.returncode}: {last}")
            continue
        known = set(re.findall(r"--[a-z][a-z0-9-]*", done.stdout))
        for flag, job in sorted(flags.items()):
            if flag not in known:
                told.append(f"{' '.join(program)} knows no {flag}, which {job} gives it")
    return told

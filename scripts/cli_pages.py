#!/usr/bin/env python3
"""Writes docs/reference/cli/: a page for each command, with the text of its --help.

    python3 scripts/cli_pages.py            writes the pages
    python3 scripts/cli_pages.py --check    names the pages that differ from the program

The program is SEGTRT_BIN, else the newer of target/release/segtrt and target/debug/segtrt.
Exit code 0: written, or no difference; 1: a difference; 2: no program.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs/reference/cli"
# A command of the list "Commands:": two spaces, the name, its sentence.
LISTED = re.compile(r"^  ([a-z][a-z0-9-]*)  +(\S.*)$")
COLUMNS = "100"


def program():
    """The program to ask, or None."""
    if os.environ.get("SEGTRT_BIN"):
        return Path(os.environ["SEGTRT_BIN"])
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    built = [path for path in (target / "release/segtrt", target / "debug/segtrt") if path.is_file()]
    return max(built, key=lambda path: path.stat().st_mtime, default=None)


def help_of(binary, words):
    """The help of a command, wrapped at COLUMNS, without spaces at the ends of lines."""
    # Variables of the user's shell would show up as values of flags.
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment |= {"COLUMNS": COLUMNS, "NO_COLOR": "1"}
    # Outside of a repository, so that no file of a folder decides about a default.
    done = subprocess.run([binary, *words, "--help"],
                          stdin=subprocess.DEVNULL,
                          capture_output=True,
                          text=True,
                          env=environment,
                          cwd="/")
    if done.returncode:
        raise SystemExit(f"{binary} {' '.join(words)} --help: exit code {done.returncode}\n{done.stderr}")
    return "\n".join(line.rstrip() for line in done.stdout.splitlines()).strip("\n") + "\n"


def commands_of(text):
    """The commands that a help lists, but for `help` itself."""
    names, inside = [], False
    for line in text.splitlines():
        found = LISTED.match(line)
        if line == "Commands:":
            inside = True
        elif inside and found and found.group(1) != "help":
            names.append(found.group(1))
        elif inside and not line.strip():
            break
    return names


def sections(binary, words, level):
    """The section of a command, and the sections of its own commands."""
    text = help_of(binary, words)
    yield f"{'#' * level} segtrt {' '.join(words)}".rstrip() + f"\n\n```text\n{text}```\n"
    for name in commands_of(text):
        yield from sections(binary, [*words, name], level + 1)


def first_sentence(text):
    """The first paragraph of a help, on one line."""
    return " ".join(text.split("\n\n")[0].split())


def pages(binary):
    """File name and text of each page."""
    top = help_of(binary, [])
    names = commands_of(top)
    rows = []
    for name in names:
        yield f"{name}.md", "\n".join(sections(binary, [name], 1))
        rows.append(f"| [segtrt {name}]({name}.md) | {first_sentence(help_of(binary, [name]))} |")
    table = "\n".join(["| command | what it does |", "|---|---|", *rows])
    about = "scripts/cli_pages.py writes these pages from the program's own help."
    yield "README.md", f"# Commands\n\n{about}\n\n{table}\n\n## segtrt\n\n```text\n{top}```\n"


def differences(folder, wanted):
    """File names that differ between the folder and the wanted pages."""
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    return sorted(name for name in there.keys() | wanted.keys() if there.get(name) != wanted.get(name))


def write(folder, wanted):
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.md"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; name the pages that differ")
    args = parser.parse_args()
    binary = program()
    if not binary:
        print("no segtrt was built; type cargo build --locked, or set SEGTRT_BIN", file=sys.stderr)
        return 2
    wanted = dict(pages(binary))
    changed = differences(FOLDER, wanted)
    if not args.check:
        write(FOLDER, wanted)
        print(f"{len(wanted)} pages, {len(changed)} changed")
        return 0
    if changed:
        print(f"these pages of docs/reference/cli differ from {binary} --help: {', '.join(changed)}",
              file=sys.stderr)
        print("write them again: python3 scripts/cli_pages.py", file=sys.stderr)
    return bool(changed)


if __name__ == "__main__":
    sys.exit(main())

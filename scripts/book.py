#!/usr/bin/env python3
"""Builds the book of docs/SUMMARY.md with mdbook, into target/book/html.

mdbook reads one folder, and pages link to files all over the repository. So the chapters, and the
files that they link to, are first copied to target/book/src with the paths that they have here.

    python3 scripts/book.py               needs mdbook: cargo install mdbook --locked
    python3 scripts/book.py --copy-only   copies, and does not call mdbook

Exit code 0: built; 1: a chapter links to a page that is no chapter, or mdbook failed or is missing.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import check_docs

SUMMARY = "docs/SUMMARY.md"
SETTINGS = "docs/book.toml"
# The list of commands, whose folder has a page for each (scripts/cli_pages.py).
COMMANDS = "reference/cli/README.md"


def summary(root):
    """The summary, with a chapter for each command after the list of commands."""
    text = (root / SUMMARY).read_text(encoding="utf-8")
    folder = os.path.dirname(SUMMARY)
    pages = sorted((root / folder / COMMANDS).parent.glob("*.md"))
    names = [page.stem for page in pages if page.name != os.path.basename(COMMANDS)]
    added = "".join(f"  - [segtrt {name}]({os.path.dirname(COMMANDS)}/{name}.md)\n" for name in names)
    return re.sub(rf"^- .*\({COMMANDS}\)\n", lambda line: line.group() + added, text, flags=re.M)


def chapters(root):
    """Paths of the chapters, in the order of the summary."""
    folder = os.path.dirname(SUMMARY)
    return [os.path.normpath(f"{folder}/{target}") for _, target in check_docs.links(summary(root))]


def linked(root, page):
    """Paths of the files and folders that a page links to."""
    for _, target in check_docs.links((root / page).read_text(encoding="utf-8")):
        path = target.partition("#")[0]
        if path and not check_docs.SCHEME.match(target):
            yield os.path.normpath(os.path.join(os.path.dirname(page), path))


def copy(root, out):
    """Copies the book's sources to the folder `out`; yields what is wrong."""
    shutil.rmtree(out, ignore_errors=True)
    pages = chapters(root)
    wanted = list(pages)
    for page in pages:
        for path in linked(root, page):
            if path.endswith(".md") and path not in pages:
                yield f"{page} links to {path}, which is no chapter; add it to {SUMMARY}"
            elif (root / path).is_dir():
                yield f"{page} links to the folder {path}; a book has no folders, so name a file"
            elif path not in wanted:
                wanted.append(path)
    for path in wanted:
        (out / "src" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, out / "src" / path)
    # The book's root is the repository's.
    moved = re.sub(
        r"\]\((?:\.\./)?", lambda found: "](" if found.group().endswith("../") else "](docs/", summary(root)
    )
    (out / "src/SUMMARY.md").write_text(moved, encoding="utf-8")
    shutil.copyfile(root / SETTINGS, out / "book.toml")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--copy-only", action="store_true", help="do not call mdbook")
    args = parser.parse_args()
    out = check_docs.ROOT / "target/book"
    faults = list(copy(check_docs.ROOT, out))
    if faults:
        print("\n".join(faults), file=sys.stderr)
        return 1
    if args.copy_only:
        print(out / "src")
        return 0
    if not shutil.which("mdbook"):
        print("mdbook is not on PATH; install it: cargo install mdbook --locked", file=sys.stderr)
        return 1
    if subprocess.run(["mdbook", "build", str(out)]).returncode:
        return 1
    print(out / "html/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())

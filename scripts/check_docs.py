#!/usr/bin/env python3
"""Checks the Markdown pages: links, anchors, and the length of sentences and of the README.

    python3 scripts/check_docs.py              every rule; prints FILE:LINE: MESSAGE for each fault
    python3 scripts/check_docs.py --words      the long sentences of all pages

Rules:
- A relative link leads to a file or folder of the working tree, and its anchor to a heading of that page.
- A sentence of a page or folder in SHORT has at most 25 words. Code blocks, tables and headings do not
  count; inline code is one word.
- README.md has at most 120 lines.
- Paths and names of the sources in code type on a page of NAMED exist.

Exit code 0: no fault; 1: at least one.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
MOST_WORDS = 25
MOST_LINES = {"README.md": 120}
# Pages, and folders of pages, whose sentences are held to MOST_WORDS.
SHORT = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"),
    *("docs/", "cuda/", "engines/", "lab/", "onnx/", "pytorch/"),
)
# Pages whose code spans are paths of the repository or names that its Rust sources declare.
NAMED = ("docs/explanation/architecture.md",)
# Folders of raw results: pages in their subfolders are a program's output, and name files that
# were not kept.
RECORDS = ("docs/results", "docs/measurements")

# Model tags look like functions.
TAGS = ("sam2_", "edgetam_")
# A path: its first part is a file or folder of the repository. A name: a type or a function.
PATH = re.compile(r"^[\w.-]+(?:/[\w.-]*)*$")
NAME = re.compile(r"^(?:[A-Z]\w*[a-z]\w*|[a-z]+(?:_[a-z]+)+)$")
DECLARED = re.compile(r"\b(?:fn|struct|enum|trait|type|mod|const|static)\s+(\w+)")
FENCE = re.compile(r"^\s*(```+|~~~+)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$")
ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
INLINE_CODE = re.compile(r"(`+)(.+?)\1")
# [text](target) and ![text](target "title"); the target may stand in angle brackets.
LINK = re.compile(r"\]\(\s*<?([^()<>\s]+(?:\([^()\s]*\))?)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINITION = re.compile(r"^\s{0,3}\[[^\]]+\]:\s*<?([^\s>]+)>?")
ID = re.compile(r"<a\s+(?:id|name)=[\"']([^\"']+)[\"']")
SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:", re.I)
# A sentence ends at one of .!? and closing marks, before a space and the beginning of another.
END = re.compile(r"(?<=[.!?])[\"')*_”]*\s+(?=[\"'(*_“\[`]*[A-Z0-9])")
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|approx|no)\.(?=\s)", re.I)


def without_code_blocks(text):
    """The page's lines, numbered from 1; those of fenced and indented code are empty."""
    fence, blank, listed = None, True, False
    for number, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        if fence:
            if mark and mark.group(1).startswith(fence) and not line.strip().strip(fence[0]):
                fence = None
            yield number, ""
        elif mark:
            fence = mark.group(1)
            yield number, ""
        elif line.startswith("    ") and blank and not listed:
            yield number, ""
        else:
            if line.strip():
                listed = bool(ITEM.match(line)) or (listed and line.startswith(" "))
                blank = False
            else:
                blank = True
            yield number, line


def slug(heading):
    """The anchor that GitHub gives to a heading."""
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    plain = re.sub(r"[`*]", "", plain).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(text):
    """Every anchor of a page; a heading that comes again gets -1, -2, …"""
    found, seen = set(), {}
    for _, line in without_code_blocks(text):
        found.update(ID.findall(line))
        heading = HEADING.match(line)
        if heading:
            name = slug(heading.group(1))
            count = seen.get(name, 0)
            seen[name] = count + 1
            found.add(f"{name}-{count}" if count else name)
    return found


def links(text):
    """(line number, target) of each link outside of code."""
    for number, line in without_code_blocks(text):
        line = INLINE_CODE.sub("`code`", line)
        for match in LINK.finditer(line):
            yield number, match.group(1)
        definition = DEFINITION.match(line)
        if definition:
            yield number, definition.group(1)


def link_faults(root, page):
    text = (root / page).read_text(encoding="utf-8")
    for number, target in links(text):
        if SCHEME.match(target) or target.startswith("//"):
            continue
        path, _, anchor = unquote(target).partition("#")
        file = (root / page) if not path else (root / page).parent / path
        if path.startswith("/"):
            yield number, f"the link {target} begins with a slash; write it relative to this page"
        elif root.resolve() not in (file.resolve(), *file.resolve().parents):
            yield number, f"the link {target} leaves the repository"
        elif not file.exists():
            yield number, f"the link {target} leads to no file"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8")):
            there = file.resolve().relative_to(root.resolve())
            yield number, f"the link {target} names no heading of {there}"


def paragraphs(text):
    """(line number, prose) of each paragraph, list item and quotation, without tables and code."""
    begun, words = 0, []
    for number, line in [*without_code_blocks(text), (0, "")]:
        stripped = line.strip().lstrip("> ")
        apart = not stripped or stripped.startswith("|") or HEADING.match(line) or DEFINITION.match(line)
        if words and (apart or ITEM.match(line)):
            yield begun, " ".join(words)
            words = []
        if not apart:
            if not words:
                begun = number
            words.append(ITEM.sub("", stripped))


def sentences(prose):
    prose = INLINE_CODE.sub("Code", prose)
    prose = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", prose)
    prose = re.sub(r"<[^>]+>", "", prose)
    prose = ABBREVIATION.sub(lambda found: found.group(0)[:-1], prose)
    return END.split(prose)


def words_of(sentence):
    return [word for word in sentence.split() if re.search(r"\w", word)]


def long_sentences(text, most=MOST_WORDS):
    for number, prose in paragraphs(text):
        for sentence in sentences(prose):
            count = len(words_of(sentence))
            if count > most:
                yield number, f"{count} words in one sentence, {most} at most: {sentence[:70].strip()} …"


def declared(root):
    """Every name that a Rust source declares."""
    files = [path for folder in ("src", "crates") for path in (root / folder).rglob("*.rs")]
    return {name for file in files for name in DECLARED.findall(file.read_text(encoding="utf-8"))}


def name_faults(root, page):
    known = None
    for number, line in without_code_blocks((root / page).read_text(encoding="utf-8")):
        for _, code in INLINE_CODE.findall(line):
            if PATH.match(code) and ("/" in code or (root / code).exists()):
                if not (root / code).exists():
                    yield number, f"`{code}` is no file or folder of the repository"
            elif NAME.match(code):
                known = known or declared(root)
                if code not in known and not code.startswith(TAGS):
                    yield number, f"`{code}` is declared in no Rust source"


def is_record(name):
    return any(str(Path(name).parent).startswith(f"{folder}/") for folder in RECORDS)


def pages(root):
    """Markdown files that git tracks or would track, but for records."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.split("\0")
    return sorted({name for name in listed if name and (root / name).is_file() and not is_record(name)})


def faults(root, names, short=SHORT):
    for name in names:
        text = (root / name).read_text(encoding="utf-8")
        for number, message in link_faults(root, name):
            yield f"{name}:{number}: {message}"
        for number, message in name_faults(root, name) if name in NAMED else ():
            yield f"{name}:{number}: {message}"
        if name.startswith(tuple(short)):
            for number, message in long_sentences(text):
                yield f"{name}:{number}: {message}"
        lines = len(text.splitlines())
        if lines > MOST_LINES.get(name, lines):
            most = MOST_LINES[name]
            yield f"{name}:{lines}: {lines} lines, {most} at most; move details to a page under docs/"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pages", nargs="*", help="these pages only [all]")
    parser.add_argument("--words", action="store_true", help="hold every page to the limit of words")
    args = parser.parse_args()
    names = args.pages or pages(ROOT)
    found = list(faults(ROOT, names, names if args.words else SHORT))
    print("\n".join(found) if found else f"{len(names)} pages, no fault")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())

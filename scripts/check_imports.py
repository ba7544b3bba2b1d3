#!/usr/bin/env python3
"""Checks the direction of imports: between crates, and between the modules of each crate.

    python3 scripts/check_imports.py            prints each fault; exit code 1 if there is one
    python3 scripts/check_imports.py --arrows   prints the imports between the modules of each crate

Rules:
- A crate depends only on crates below it in LAYERS.
- The top-level modules of a crate (`src/x.rs`, `src/x/`) import each other without a circle. In the crate
  of the kernels, the self-test files inside a module (CASES) belong to the module `selftest`.

`use` lines, `pub use` lines and paths in code count; comments and unit tests (`tests.rs`, `mod
tests`) do not.
"""

import argparse
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Lowest first; crates of one layer do not depend on each other.
LAYERS = (
    ("nvidia-dynlib", "segtrt-host"),
    ("tensorrt-dl", "segtrt-cuda", "segtrt-vos"),
    ("segtrt-kernels", "segtrt-report"),
    ("segtrt-execution",),
    ("segtrt-runtime",),
    ("segtrt",),
)
# Files and folders of a module of the kernels' crate that belong to its self-test.
CASES = ("cases", "drawn", "reference", "selftest")
WITH_CASES = "segtrt-kernels"
# A crate's root declares its modules and re-exports them; main starts the program.
ROOTS = ("lib", "main")

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.S)
TESTS = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*mod \w+ \{.*?\n\}", re.S)
# `crate::x`, and each x of `crate::{x::…, y}`.
PATH = re.compile(r"\bcrate::(\w+)")
GROUP = re.compile(r"\bcrate::\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")
FIRST = re.compile(r"(?:^|,)\s*(\w+)")
# `super::x`, which is a sibling of the crate's root in a file directly below src/.
SUPER = re.compile(r"\bsuper::(\w+)")
SUPER_GROUP = re.compile(r"\bsuper::\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")
DECLARED = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?mod (\w+)(?:;| \{)", re.M)
EXPORTED = re.compile(r"^pub(?:\([^)]*\))? use (?:crate::)?(\w+)::(.*?);", re.M | re.S)


def code_of(file):
    text = STRING.sub('""', file.read_text(encoding="utf-8"))
    return TESTS.sub("", COMMENT.sub("", text))


def without_groups(text):
    """The text of a group without the groups inside it: `a::{b, c}, d` -> `a::, d`."""
    while (shorter := re.sub(r"\{[^{}]*\}", "", text)) != text:
        text = shorter
    return text


def imported(code, path, group):
    names = {match.group(1) for match in path.finditer(code)}
    for match in group.finditer(code):
        names.update(FIRST.findall(without_groups(match.group(1))))
    return names


def modules(source, cases=()):
    """Each top-level module of a crate with its files, unit tests left out."""
    found = {}
    for file in sorted(source.rglob("*.rs")):
        parts = file.relative_to(source).with_suffix("").parts
        if "tests" in parts or (len(parts) == 1 and parts[0] in ROOTS):
            continue
        is_case = any(part in cases for part in parts[1:])
        found.setdefault("selftest" if is_case else parts[0], []).append(file)
    return found


def exports(source):
    """Names that the crate's root re-exports, with their modules."""
    found = {}
    root = source / "lib.rs"
    if root.is_file():
        for module, names in EXPORTED.findall(code_of(root)):
            for name in re.findall(r"\w+", names):
                found[name] = module
    return found


def arrows(source, cases=()):
    """Module -> {module that it imports: file}."""
    files = modules(source, cases)
    known = exports(source)
    graph = {}
    for module, members in files.items():
        for file in members:
            code = code_of(file)
            names = imported(code, PATH, GROUP)
            if file.parent == source:
                names |= imported(code, SUPER, SUPER_GROUP)
            for name in names:
                target = name if name in files else known.get(name)
                if target in files and target != module:
                    graph.setdefault(module, {}).setdefault(target, file)
    return graph


def circles(graph):
    """Groups of modules that all import each other, directly or not (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in graph.get(node, ()):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            group = [stack.pop()]
            while group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def crates(root):
    """Name, folder of the sources, and names of the crates that each crate depends on."""
    workspace = tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))
    packages = {
        key: entry["package"]
        for key, entry in workspace["workspace"]["dependencies"].items()
        if isinstance(entry, dict) and "path" in entry
    }
    for manifest in [root / "Cargo.toml", *sorted(root.glob("crates/*/Cargo.toml"))]:
        data = tomllib.loads(manifest.read_text(encoding="utf-8"))
        needs = [packages[key] for key in data.get("dependencies", {}) if key in packages]
        yield data["package"]["name"], manifest.parent / "src", needs


def faults(root, layers=LAYERS):
    floor = {name: number for number, layer in enumerate(layers) for name in layer}
    for name, source, needs in crates(root):
        if name not in floor:
            yield f"{name}: not in LAYERS of scripts/check_imports.py"
            continue
        for need in needs:
            if floor.get(need, len(layers)) >= floor[name]:
                yield f"{name} depends on {need}, which is not below it"
        graph = arrows(source, CASES if name == WITH_CASES else ())
        for circle in circles(graph):
            ways = [
                f"{module} -> {target} ({file.relative_to(root)})"
                for module in circle
                for target, file in sorted(graph[module].items())
                if target in circle
            ]
            yield f"{name}: a circle of {', '.join(circle)}: " + "; ".join(ways)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--arrows", action="store_true", help="print the imports between modules")
    args = parser.parse_args()
    if args.arrows:
        for name, source, _ in crates(ROOT):
            for module, targets in sorted(arrows(source, CASES if name == WITH_CASES else ()).items()):
                print(f"{name}: {module} -> {', '.join(sorted(targets))}")
        return 0
    found = list(faults(ROOT))
    print("\n".join(found) if found else "no circle, no import against the direction")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())

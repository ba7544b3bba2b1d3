"""Writes the licence texts of the crates inside the program into one file; equal texts once.

    python3 scripts/third_party.py --target x86_64-unknown-linux-gnu --out THIRD-PARTY.txt

A crate without a text of its own is listed with the name of its licence.
"""

import argparse
import json
import subprocess
from pathlib import Path

NAMES = ("LICEN", "COPYING", "NOTICE", "COPYRIGHT", "UNLICENSE")


def linked(metadata):
    """-> the packages that the program is linked with, without build and test dependencies and
    without its own crates."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    left, seen = [metadata["resolve"]["root"]], set()
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        for dependency in nodes[name]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                left.append(dependency["pkg"])
    foreign = (packages[name] for name in seen if packages[name]["source"])
    return sorted(foreign, key=lambda package: (package["name"], package["version"]))


def texts(package):
    """-> the licence files of a package, name and text."""
    folder = Path(package["manifest_path"]).parent
    files = [
        path for path in sorted(folder.iterdir()) if path.is_file() and path.name.upper().startswith(NAMES)
    ]
    return [(path.name, path.read_text(errors="replace").strip()) for path in files]


def collect(packages, read=texts):
    """-> the file's text: a list of all crates, then each text with the crates that have it."""
    lines = ["segtrt is linked with these crates:", ""]
    users = {}
    for package in packages:
        title = f"{package['name']} {package['version']}"
        found = read(package)
        lines.append(
            f"{title}: "
            f"{package['license'] or 'see its text below'}{'' if found else ' (no text in the crate)'}")
        for _, text in found:
            users.setdefault(text, []).append(title)
    for text, titles in users.items():
        lines += ["", "-" * 80, ", ".join(dict.fromkeys(titles)), "-" * 80, "", text]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", required=True, help="Rust's name of the platform")
    parser.add_argument("--out", required=True, type=Path)
    args = parser.parse_args()
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", args.target]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    packages = linked(metadata)
    args.out.write_text(collect(packages))
    print(f"{args.out}: {len(packages)} crates")


if __name__ == "__main__":
    main()

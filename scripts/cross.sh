#!/bin/bash
# Builds the program for a processor against glibc 2.31, with zig from PyPI as the linker and C compiler.
#   scripts/cross.sh dev|release x86_64|aarch64
# It lies in target/<processor>-unknown-linux-gnu/{debug,release}/segtrt. Exit code 3: zig or Rust's library cannot be had here.
set -euo pipefail
cd "$(dirname "$0")/.."
GLIBC=2.31
venv=$PWD/target/dist-venv

unavailable() {
  echo "$*" >&2
  exit 3
}

profile=$1 machine=$2 target=$2-unknown-linux-gnu
case $profile in dev | release) ;; *) echo "unknown profile $profile; expected dev or release" >&2 && exit 2 ;; esac
case $machine in x86_64 | aarch64) ;; *) echo "unknown processor $machine; expected x86_64 or aarch64" >&2 && exit 2 ;; esac

sysroot=$(rustc --print sysroot)
if [ ! -d "$sysroot/lib/rustlib/$target/lib" ]; then
  command -v rustup >/dev/null ||
    unavailable "Rust's standard library for $target is missing in $sysroot, and there is no rustup to add it: install Rust from https://rustup.rs"
  rustup target add "$target" || unavailable "rustup cannot add $target (no network?)"
fi
if ! cmp -s scripts/requirements-dist.txt "$venv/requirements.txt"; then
  python3 -m venv --clear "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r scripts/requirements-dist.txt ||
    unavailable "pip cannot install ziglang and cargo-zigbuild (no network?); its messages are above"
  cp scripts/requirements-dist.txt "$venv/requirements.txt"
fi
PATH=$venv/bin:$PATH exec cargo zigbuild --profile "$profile" --locked --bin segtrt --target "$target.$GLIBC"

#!/bin/bash
# Says what a fresh machine lacks before anything is built, with the command that installs it.
#   scripts/prerequisites.sh [python] [curl]
# python: also Python with venv, for tests and exporter. curl: also curl, for `segtrt setup` and
# `segtrt fetch`.
set -u
cd "$(dirname "$0")/.." || exit 1
missing=0
lacks() { # WHAT HOW
  echo "missing: $1; install it with: $2" >&2
  missing=1
}
# The version in the first line of a program's output: "cargo 1.92.0 (…)" has 1.92.0.
version_of() { "$@" 2>/dev/null | head -n 1 | grep -oE '[0-9]+\.[0-9]+(\.[0-9]+)?' | head -n 1; }
older() { [ "$1" != "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; } # FOUND WANTED

wanted=$(sed -nE 's/^rust-version = "([0-9.]+)"$/\1/p' Cargo.toml)
found=$(version_of cargo --version)
if [ -z "$found" ]; then
  lacks "the Rust toolchain ($wanted or newer)" 'the installer from https://rustup.rs'
elif older "$found" "$wanted"; then
  lacks "Rust $wanted or newer, found cargo $found ($(command -v cargo))" \
    'rustup update stable (rustup: https://rustup.rs; the packages of older systems have an older Rust)'
fi
# mozjpeg and SQLite are C, the calls into TensorRT C++.
for compiler in "${CC:-cc}" "${CXX:-c++}"; do
  "$compiler" --version >/dev/null 2>&1 || lacks "the compiler $compiler" 'sudo apt-get install g++'
done
for more in "$@"; do
  case "$more" in
  python)
    python3 -c 'import venv, ensurepip, sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
      lacks "Python 3.10 or newer with venv, found $(version_of python3 --version || true)" 'sudo apt-get install python3-venv'
    ;;
  curl) curl --version >/dev/null 2>&1 || lacks 'curl' 'sudo apt-get install curl' ;;
  *)
    echo "$0: unknown argument $more; expected python or curl" >&2
    exit 2
    ;;
  esac
done
# A release build takes this much; with the tests it is twice that.
mkdir -p target 2>/dev/null
free=$(df -Pk target 2>/dev/null | awk 'NR == 2 { print int($4 / 1024) }')
if [ -n "$free" ] && [ "$free" -lt 1500 ]; then
  echo "warning: $free MiB free for $PWD/target; a build needs about 1500" >&2
fi
exit $missing

#!/bin/bash
# Says what a fresh machine lacks before anything is built, with the command that installs it.
set -u
missing=0
need() { # COMMAND WHAT HOW
  if ! eval "$1" >/dev/null 2>&1; then
    echo "missing: $2; install it with: $3" >&2
    missing=1
  fi
}
need 'cargo --version' 'the Rust toolchain (1.92 or newer)' 'the installer from rustup.rs'
need 'c++ --version' 'a C++ compiler' 'sudo apt-get install g++'
need 'python3 -c "import venv, ensurepip, sys; sys.exit(sys.version_info < (3, 10))"' 'Python 3.10 or newer with venv (for ONNX Runtime)' 'sudo apt-get install python3-venv'
exit $missing

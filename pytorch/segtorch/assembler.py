"""One ptxas for all processes of torch.compile. Imports neither PyTorch nor Triton.

Inductor's workers compile the candidates of max-autotune side by side, with the ptxas that PyTorch
brings. The process that times the candidates takes Triton's own by default (PyTorch 2.11: release
12.8, the workers 13.0). Triton's cache keys name the ptxas's version. So the timing process compiled
each candidate again, one after the other: 5 to 26 s for 22 candidates, now 0.2 to 1.1 s
(docs/results/builds.md).

Triton asks for the version once in a process, at its first kernel, which is that of resizing. So the
choice must be made before PyTorch is imported. What runs in the end comes from the workers, and is the
same. The causes were read in the sources of PyTorch 2.11 and Triton 3.6.
"""

import os
from importlib.util import find_spec
from pathlib import Path

VARIABLE = "TRITON_PTXAS_PATH"


def choose():
    """Lets every process assemble with PyTorch's ptxas, unless the environment names one or PyTorch
    brings none."""
    found = find_spec("torch")
    for folder in (found.submodule_search_locations or ()) if found else ():
        assembler = Path(folder) / "bin" / "ptxas"
        if assembler.is_file() and os.access(assembler, os.X_OK):
            os.environ.setdefault(VARIABLE, str(assembler))

"""Measures the original PyTorch predictors of SAM 2.1 and EdgeTAM as `segtrt bench` measures graphs
and engines.

python pytorch/run.py --split-dir demo/split --models edgetam_mini_points --bundle onnx/bundles
--device cpu \\
        --out-dir demo/pytorch --save-masks

README.md beside this file says what is inside the timed region and how `segtrt compare` talks to
this program.
"""

import os
import sys

from segtorch import RunError, assembler, shown
from segtorch.rounds import Events, refuse_own_teacher, run_rounds, say


def main(events):
    """Exit code: 0, or 1 where a row failed."""
    from segtorch import arguments

    args = arguments.parse()  # help ends here, and needs no PyTorch
    assembler.choose()  # before PyTorch is imported
    from segtorch import tags
    from segtorch.split import Split

    # A wrong command line shall be told at once: importing PyTorch takes seconds.
    chosen = tags.parse(args.models, args.prompt)
    split = Split(args.split_dir, args.split_name)
    refuse_own_teacher(args)
    from segtorch.run_folder import RunFolder
    from segtorch.side import Side

    side = Side(args, chosen, split, say)
    with side.contexts():
        side.prepare()
        facts = side.facts()
        failed = run_rounds(args, side, events,
                            lambda path: RunFolder(path, side.configuration(), facts, say))
    return 1 if failed else 0


def guarded():
    """Runs main; a problem becomes one event and an exit code, never a traceback without one."""
    events = None
    try:
        if not {"-h", "--help"} & set(sys.argv[1:]):
            events = Events()
        return main(events)
    except RunError as error:
        if events is None:
            raise
        events.send("error", what=error.what, advice=error.advice)
        say(f"error: {error.what}; {error.advice}")
        return 2 if error.usage else 1
    except ModuleNotFoundError as error:
        advice = f"pip install -r {shown('pytorch/requirements.txt')} ({shown('pytorch/README.md')} has the order)"
        events.send("error", what=f"the Python package {error.name} is missing", advice=advice)
        say(f"error: the Python package {error.name} is missing; {advice}")
        return 1
    except KeyboardInterrupt:
        return 130
    # A bug or a broken installation: the caller must hear of it, and the traceback is kept.
    except Exception as error:
        events.send("error", what=f"{type(error).__name__}: {error}", advice="the traceback is on stderr")
        import traceback

        traceback.print_exc()
        return 1


if __name__ == "__main__":
    code = guarded()
    sys.stdout.flush()
    sys.stderr.flush()
    # PyTorch's compile workers may linger at exit; everything is written.
    os._exit(code)

"""The parts of lab/measure.py: a plan of jobs, the machine that they share, and the scheduler
between the two.

    job.py        what a job is, and checks of a whole plan
    machine.py    GPUs, processors and memory, and how they are shared out
    process.py    a job's process: begun on its processors, ended with all of its children
    ledger.py     what is known of each job on disk: logs, results, what is done
    scheduler.py  which job begins when and where
    plan*.py      the jobs behind docs/results.md
    engines.py    pieces of an engine folder put together
    harvest.py    what is small and new, in one archive
    flags.py      whether the programs know the flags that the plan gives them
"""

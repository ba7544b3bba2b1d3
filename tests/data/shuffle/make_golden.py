"""Golden orders of CPython's random.shuffle; run with Python 3.11: python make_golden.py > golden.txt

One line for each case: seed, length, and the shuffled list of 0..length-1.
"""
import random
import sys

print(f"# Python {sys.version.split()[0]}: seed length order")
SEEDS = [0, 1, 2, 7, 42, 1234, -1, -42, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 123456789012345, -(2**40) - 3,
         2**63 - 1, -(2**63)]
for seed in SEEDS:
    for length in (0, 1, 2, 3, 5, 16, 17, 155):
        items = list(range(length))
        random.seed(seed)
        random.shuffle(items)
        print(seed, length, ",".join(map(str, items)) or "-")
for seed in (42, 99):
    items = list(range(700))
    random.seed(seed)
    random.shuffle(items)
    print(seed, 700, ",".join(map(str, items)))

"""Training of edgetam_mini on synthetic clips that are made on the training device.

`train_mini.py` beside this package is the command. The package is separate from the
exporter because a bundle needs weights, not the way they were found.
"""

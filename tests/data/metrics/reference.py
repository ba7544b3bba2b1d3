"""Both evaluators in plain numpy, OpenCV and scikit-image: what the Rust metrics are held against.

Written from the evaluators' rules (SA-V's sav_benchmark.py, DAVIS 2017, the Python predecessor), on
whole images and without any thought of speed beyond what the libraries give.
"""

import math

import cv2
import numpy as np
from skimage.morphology import disk

TOLERANCE = 0.008


def region(truth, prediction):
    union = np.count_nonzero(truth | prediction)
    return np.count_nonzero(truth & prediction) / union if union else 1.0


def official_boundary(mask):
    """Pixels that differ from the right, lower or lower-right neighbour, with the rules at the edge."""
    boundary = np.zeros_like(mask)
    boundary[:, :-1] |= mask[:, :-1] ^ mask[:, 1:]
    boundary[:-1, :] |= mask[:-1, :] ^ mask[1:, :]
    boundary[:-1, :-1] |= mask[:-1, :-1] ^ mask[1:, 1:]
    return boundary


def official_frame(truth, prediction):
    element = disk(math.ceil(TOLERANCE * np.linalg.norm(truth.shape)))
    edge_t, edge_p = official_boundary(truth), official_boundary(prediction)
    near_t = cv2.dilate(edge_t.astype(np.uint8), element) > 0
    near_p = cv2.dilate(edge_p.astype(np.uint8), element) > 0
    n_t, n_p = np.count_nonzero(edge_t), np.count_nonzero(edge_p)
    if n_t == 0 and n_p == 0:
        precision, recall = 1.0, 1.0
    elif n_p == 0:
        precision, recall = 1.0, 0.0
    elif n_t == 0:
        precision, recall = 0.0, 1.0
    else:
        precision = np.count_nonzero(edge_p & near_t) / n_p
        recall = np.count_nonzero(edge_t & near_p) / n_t
    total = precision + recall
    return region(truth, prediction), 2 * precision * recall / total if total else 0.0


def predecessor_frame(truth, prediction):
    j = region(truth, prediction)
    if not truth.any() or not prediction.any():
        return j, float(truth.any() == prediction.any())
    small = np.ones((3, 3), np.uint8)
    edge_t = cv2.morphologyEx(truth.astype(np.uint8), cv2.MORPH_GRADIENT, small)
    edge_p = cv2.morphologyEx(prediction.astype(np.uint8), cv2.MORPH_GRADIENT, small)
    height, width = truth.shape
    radius = max(1, round(TOLERANCE * math.sqrt(height**2 + width**2)))
    element = np.ones((2 * radius + 1, 2 * radius + 1), np.uint8)
    near_t, near_p = cv2.dilate(edge_t, element), cv2.dilate(edge_p, element)
    n_t, n_p = int(edge_t.sum()), int(edge_p.sum())
    if n_t == 0 or n_p == 0:
        return j, float(n_t == n_p)
    precision = int((edge_p & near_t).sum()) / n_p
    recall = int((edge_t & near_p).sum()) / n_t
    total = precision + recall
    return j, 2 * precision * recall / total if total else 0.0


def mean_scores(scores):
    if not scores:
        return None
    j = float(np.mean([score[0] for score in scores]))
    f = float(np.mean([score[1] for score in scores]))
    return {"j": j, "f": f, "scored_frames": len(scores)}


def predecessor_sequence(frames):
    """frames: (truth, prediction) of every annotated frame; either may be None."""
    scores = []
    for truth, prediction in frames:
        if truth is None:
            continue
        scores.append((0.0, 0.0) if prediction is None else predecessor_frame(truth, prediction))
    return mean_scores(scores)


def official_sequence(frames):
    scores, in_truth, in_prediction = [], False, False
    for truth, prediction in frames[1:-1]:
        if truth is None:
            continue
        if prediction is None:
            prediction = np.zeros_like(truth)
        in_truth |= bool(truth.any())
        in_prediction |= bool(prediction.any())
        if in_truth or in_prediction:
            scores.append(official_frame(truth, prediction))
    return mean_scores(scores) if in_truth else None

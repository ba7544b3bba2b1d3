"""Following the objects of annotated clips with Meta's tracking loop, for networks that learn to: clips, answers and what they cost."""

from dataclasses import dataclass

import torch
from segexport import ExportError
from torch.nn import functional as F

from .losses import FOCAL_WEIGHT, mask_losses
from .photos import backbone, load

SURE, SURE_WEIGHT = 4.0, 0.5  # logits that pixels away from the outline shall have at least; what the hinge weighs beside the dice loss
CROSSED = 0.05  # how much masks may differ between neighbours where no outline is


class Clip:
    """One object of one clip: the features of its annotated frames, and its masks.

    `walk`: (features, number of the mask or None) of every frame from the first annotated one to the last.
    """

    def __init__(self, name, backbones, masks, walk=None):
        self.name, self.backbones, self.masks = name, backbones, masks
        self.walk = walk or list(zip(backbones, range(len(masks))))
        self.costs = [1.0] * len(masks)  # what the frames' masks cost lately
        self._places = {}

    def places(self, frame):
        """Pixels well inside a mask, [n,2] on the host, of which a click may be one."""
        if frame not in self._places:
            mask = self.masks[frame]
            inner = -F.max_pool2d(-mask[None, None], 9, 1, 4)[0, 0]
            self._places[frame] = ((inner if inner.max() > 0.5 else mask) > 0.5).nonzero().cpu()
        return self._places[frame]


def clips(args, model):
    """Every object that is annotated on three frames or more; features as Meta's predictor prepares them."""
    import numpy as np
    from PIL import Image

    found, cache, positions = [], {}, []

    def features(path):
        if path not in cache:
            with torch.no_grad():
                out = backbone(model, load(path, args.imgsz)[None].to(args.device))
            # Positions are the same for every frame, and larger than the features.
            positions.extend(x.clone() for x in out["vision_pos_enc"][len(positions) :])
            cache[path] = {"backbone_fpn": [x.clone() for x in out["backbone_fpn"]], "vision_pos_enc": positions}
        return cache[path]

    for folder in sorted((args.split / "Annotations_6fps").glob("*/*")):
        images = args.split / "JPEGImages_24fps" / folder.parent.name
        masks = {}
        for path in sorted(folder.glob("*.png")):
            mask = torch.from_numpy(np.array(Image.open(path)) > 0).float()
            if (images / f"{path.stem}.jpg").is_file() and mask.sum() >= 100:
                small = F.interpolate(mask[None, None], size=(args.imgsz // 4,) * 2, mode="area")
                masks[path.stem] = small[0, 0].to(args.device)
        if len(masks) < 3:
            continue
        stems, every = list(masks), sorted(images.glob("*.jpg"))
        walk = [(features(p), stems.index(p.stem) if p.stem in masks else None) for p in every if stems[0] <= p.stem <= stems[-1]]
        annotated = [features(images / f"{stem}.jpg") for stem in stems]
        found.append(Clip(f"{folder.parent.name}/{folder.name}", annotated, list(masks.values()), walk))
    if not found:
        raise ExportError(f"{args.split}/Annotations_6fps holds no CLIP/OBJECT/*.png with a frame in JPEGImages_24fps")
    return found


@dataclass
class Answer:
    """What frames are answered, one of each clip.

    Logits [n,h,w] of the masks that were taken and [n,3,h,w] of all three, their predicted IoUs [n,3], the objects' scores [n].
    """

    taken: torch.Tensor
    masks: torch.Tensor
    ious: torch.Tensor
    score: torch.Tensor


def empty_bank():
    return {"cond_frame_outputs": {}, "non_cond_frame_outputs": {}}


def answer(model, bank, t, frames, point, length):
    """Meta's tracking step for one frame of each clip: the features `frames`, the first with clicks `point`.

    `length`: frames of the whole clip, which the positions of object pointers are counted in (up to sixteen).
    """
    heads, said = model._forward_sam_heads, {}

    def kept(*args, **more):
        # track_step hands on the masks that were taken alone.
        found = heads(*args, **more)
        said["masks"], said["ious"] = found[0], found[2]
        return found

    perceiver = getattr(model, "spatial_perceiver", None)
    if perceiver is not None:
        # EdgeTAM's code views a repeated table as a plain one, which a batch's is not.
        windows = perceiver.forward_2d
        perceiver.forward_2d = lambda x: tuple(torch.cat(of) for of in zip(*(windows(one[None]) for one in x)))
    maps = [torch.cat(of) for of in zip(*(f["backbone_fpn"] for f in frames))]
    places = [x.expand(len(frames), -1, -1, -1) for x in frames[0]["vision_pos_enc"]]
    _, features, positions, sizes = model._prepare_backbone_features({"backbone_fpn": maps, "vision_pos_enc": places})
    model._forward_sam_heads = kept
    try:
        out = model.track_step(
            frame_idx=t,
            is_init_cond_frame=t == 0,
            current_vision_feats=features,
            current_vision_pos_embeds=positions,
            feat_sizes=sizes,
            point_inputs=point if t == 0 else None,
            mask_inputs=None,
            output_dict=bank,
            num_frames=length,
        )
    finally:
        del model._forward_sam_heads  # the class's own again
        if perceiver is not None:
            del perceiver.forward_2d
    bank["cond_frame_outputs" if t == 0 else "non_cond_frame_outputs"][t] = out
    return Answer(out["pred_masks"][:, 0].float(), said["masks"].float(), said["ious"].float(), out["object_score_logits"].float().flatten())


def answers(model, clip, chosen, point):
    """Meta's tracking loop over the chosen frames of one clip, the first with a click."""
    bank = empty_bank()
    for t, frame in enumerate(chosen):
        yield answer(model, bank, t, [clip.backbones[frame]], point, len(clip.walk))


def click(places, generator, side, grid, device):
    """A point well inside each mask, in pixels of the network's input; `places` as `Clip.places` gives them, on a grid of so many pixels."""
    chosen = [of[generator.randrange(len(of))].tolist() for of in places]
    coords = [[[(x + 0.5) * side / grid, (y + 0.5) * side / grid]] for y, x in chosen]
    labels = torch.ones((len(coords), 1), dtype=torch.int32, device=device)
    return {"point_coords": torch.tensor(coords, device=device), "point_labels": labels}


def clicks(args, together, frames, generator):
    """Clicks on one frame of each clip."""
    places = [clip.places(frame) for clip, frame in zip(together, frames)]
    return click(places, generator, args.imgsz, together[0].masks[0].shape[-1], args.device)


def unsure(logits, target):
    """Hinge on the logits of pixels that the outline does not cross, over those that it is above 0 at and the object's: [n,h,w] -> [n]."""
    crossed = F.max_pool2d(target[:, None], 3, 1, 1) + F.max_pool2d(-target[:, None], 3, 1, 1)  # largest less smallest nearby
    side = (target > 0.5).float() * 2 - 1
    hinge = (crossed[:, 0] < CROSSED) * F.relu(1 - side * logits / SURE)
    return hinge.sum(dim=(1, 2)) / ((hinge > 0).sum(dim=(1, 2)) + target.sum(dim=(1, 2)))


def losses_of(given, target):
    """[n] losses and [n] IoUs of masks [n,h,w].

    Focal and dice loss and the hinge of a mask, what its predicted IoU is off by, cross-entropy of the score of an object that is there.
    """
    there = F.softplus(-given.score)
    focal, dice, iou = (x[:, 0] for x in mask_losses(given.taken[:, None], target[:, None]))
    wrong = (given.ious.max(dim=1).values - iou).abs()
    seen = given.score > 0  # the mask is hidden where the object is thought absent: the score alone can learn
    mask = FOCAL_WEIGHT * focal + dice + SURE_WEIGHT * unsure(given.taken, target) + wrong
    return there + torch.where(seen, mask, 0.0), iou * seen

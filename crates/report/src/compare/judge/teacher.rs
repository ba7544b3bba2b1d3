/*!
Teacher-forced runs: masks of sides whose memories were written from the reference's logits, for a
second drift curve.

What is missing between the two curves is what a side's own masks did to its memories; what is left
in this one is its arithmetic on the same past. It is no proof of equality, because the feedback is
what would have to be proven, and no speed.
*/

use std::collections::HashMap;

use super::contender::Contender;
use super::equality::{self, DriftCurve};
use super::result::TeacherForced;
use super::{Request, evidence, same_work};
use vos::dataset::Clip;
use vos::stats;

/// The teacher-forced run of `side`, where there was one, with its curve pushed to `curves`.
pub(super) fn of_side(
    request: &Request<'_>,
    clips: &HashMap<String, Clip>,
    reference: &Contender<'_>,
    side: &Contender<'_>,
    curves: &mut Vec<DriftCurve>,
) -> Option<TeacherForced> {
    let taught = request.set.teacher_forced.iter().find(|taught| taught.name == side.name)?;
    if taught.rounds_of(side.model).next().is_none() {
        let why = taught.missing.get(side.model)?.why.clone();
        return Some(TeacherForced { why: Some(why), ..TeacherForced::default() });
    }
    let found = Contender::of(taught, side.model).and_then(|taught| {
        let mut differs = same_work::other_input(&taught, reference);
        let same = |name: &str, a: &str, b: &str| {
            (a != b).then(|| format!("{name} is {a} teacher-forced and {b} otherwise"))
        };
        let (ours, free) = (taught.conditions, side.conditions);
        differs.extend(same("precision", &ours.precision, &free.precision));
        differs.extend(same("backend", &ours.backend, &free.backend));
        if !differs.is_empty() {
            return Err(differs.join("; "));
        }
        let objects = evidence::gather(reference, &[&taught], clips).pop();
        let objects = objects.unwrap_or_else(|| Err("not compared".to_owned()))?;
        curves.push(equality::drift(side.model, side.name, equality::TEACHER, &objects));
        let ious: Vec<f64> =
            objects.iter().flat_map(|object| object.frames.iter().map(|frame| frame.iou)).collect();
        let folder = taught.rounds.first().map(|round| {
            let path = &round.folder.path;
            path.strip_prefix(request.out_dir).unwrap_or(path).display().to_string()
        });
        Ok(TeacherForced {
            folder,
            frames: ious.len(),
            mean_iou: stats::mean(&ious),
            min_iou: stats::min(&ious),
            why: None,
        })
    });
    Some(found.unwrap_or_else(|why| TeacherForced { why: Some(why), ..TeacherForced::default() }))
}

/*!
Teacher-forced runs: masks of sides whose memories came from the reference's logits, for a second
drift curve.

The difference of the two curves is the feedback of a side's own masks. The second curve alone is
the error of its arithmetic with the same memories. Such a run proves no equality, because it leaves
out the feedback, and it has no speed.
*/

use std::collections::HashMap;

use super::equality::{self, DriftCurve};
use super::result::TeacherForced;
use super::side_results::SideResults;
use super::{Request, evidence, same_work};
use vos::dataset::Clip;
use vos::stats;

/// The teacher-forced run of `side`, if there is one. Its curve is added to `curves`.
pub(super) fn of_side(
    request: &Request<'_>,
    clips: &HashMap<String, Clip>,
    reference: &SideResults<'_>,
    side: &SideResults<'_>,
    curves: &mut Vec<DriftCurve>,
) -> Option<TeacherForced> {
    let forced = request.set.teacher_forced.iter().find(|forced| forced.name == side.name)?;
    if forced.rounds_of(side.model).next().is_none() {
        let why = forced.missing.get(side.model)?.why.clone();
        return Some(TeacherForced { why: Some(why), ..TeacherForced::default() });
    }
    let found = SideResults::of(forced, side.model).and_then(|forced| {
        let mut differs = same_work::other_input(&forced, reference);
        let same = |name: &str, a: &str, b: &str| {
            (a != b).then(|| format!("{name} is {a} teacher-forced and {b} otherwise"))
        };
        let (ours, free) = (forced.conditions, side.conditions);
        differs.extend(same("precision", &ours.precision, &free.precision));
        differs.extend(same("backend", &ours.backend, &free.backend));
        if !differs.is_empty() {
            return Err(differs.join("; "));
        }
        let objects = evidence::gather(reference, &[&forced], clips).pop();
        let objects = objects.unwrap_or_else(|| Err("not compared".to_owned()))?;
        curves.push(equality::drift(side.model, side.name, equality::TEACHER, &objects));
        let ious: Vec<f64> =
            objects.iter().flat_map(|object| object.frames.iter().map(|frame| frame.iou)).collect();
        let folder = forced.rounds.first().map(|round| {
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

/*!
What a split contains: which clips, which frames, which objects, where each ground-truth mask lies.

Nothing here decodes pixels except [`ObjectTruth::mask`]; a clip is a list of paths.
*/

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// One clip of a split: its frames in order and the objects annotated in it.
#[derive(Debug)]
pub struct Clip {
    /// Video id as the split names it.
    pub video: String,
    /// Frame files in display order; index N is frame N on the 24 fps time base.
    pub frames: Vec<PathBuf>,
    /// Annotated objects in the order of the split.
    pub objects: Vec<ObjectTruth>,
    /// Keeps frames that were extracted from a video file on disk as long as the clip lives.
    pub extracted: Option<Arc<tempfile::TempDir>>,
}

/// The ground truth of one object: a mask file for each annotated frame.
#[derive(Clone, Debug)]
pub struct ObjectTruth {
    /// Name as the CSV prints it: the directory's name in SA-V (`000`), the id in DAVIS (`1`).
    pub name: String,
    /// Frame index → mask file.
    pub masks: BTreeMap<usize, PathBuf>,
    /// The id that marks this object in its mask files; `None`: every non-zero pixel belongs to it.
    pub id: Option<u16>,
}

/*!
The scan of the first phase: which clips have which frames and objects, and which objects can be
prompted.
*/

use serde_json::{Map, Value};

use super::metadata::{ObjectData, VideoData};
use vos::dataset::{Dataset, Frames};
use vos::prompt::{ObjectPrompt, PromptKind, PromptPolicy};

/// What was found.
#[derive(Debug, Default)]
pub struct Scan {
    /// Clip → [`VideoData`], in order.
    pub video_data: Map<String, Value>,
    /// Objects that can be prompted.
    pub objects: usize,
    /// Clips and objects that cannot be used.
    pub left_out: usize,
}

/// Scans `videos`; unusable clips and objects go to `say` and are left out.
///
/// # Errors
/// Never for a clip or an object; only where the result cannot be put into JSON.
pub fn scan(
    split: &dyn Dataset,
    videos: &[String],
    limit_objects: usize,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<Scan> {
    let mut scan = Scan::default();
    for (at, video) in videos.iter().enumerate() {
        say(&format!("[{}/{}] {video}", at + 1, videos.len()));
        let opened = split.clip(video).and_then(|clip| clip.frame_size().map(|size| (clip, size)));
        let (clip, size) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                say(&format!("  {error}"));
                scan.left_out += 1;
                continue;
            }
        };
        let limit = if limit_objects == 0 { usize::MAX } else { limit_objects };
        let mut objects = Map::new();
        for object in clip.objects.iter().take(limit) {
            // Whether an object can be prompted does not depend on how: any non-empty mask gives
            // every kind of prompt.
            let (kind, policy) = (PromptKind::Points, PromptPolicy::Predecessor);
            match ObjectPrompt::new(object, clip.frames.len(), size, kind, policy) {
                Ok(prompt) => {
                    let data = ObjectData {
                        prompt_idx: prompt.index,
                        frame_indices: object.masks.keys().copied().collect(),
                        prompt_mask_shape: [prompt.mask.height(), prompt.mask.width()],
                    };
                    objects.insert(object.name.clone(), serde_json::to_value(data)?);
                }
                Err(error) => {
                    say(&format!("  {error}"));
                    scan.left_out += 1;
                }
            }
        }
        if objects.is_empty() {
            continue;
        }
        scan.objects += objects.len();
        let frames = match &clip.frames {
            Frames::Jpegs(files) => files.iter().map(|path| path.display().to_string()).collect(),
            // As the predecessor's files were named that it took out of the video.
            Frames::Video(video) => {
                (1..=video.count()).map(|number| format!("frame_{number:06}.jpg")).collect()
            }
        };
        let data = VideoData { frames, objects };
        scan.video_data.insert(video.clone(), serde_json::to_value(data)?);
    }
    Ok(scan)
}

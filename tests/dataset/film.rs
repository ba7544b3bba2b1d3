/*!
Videos instead of JPEGs, through a real `ffmpeg`; skipped loudly where there is none.
*/

use std::process::Command;

use vos::dataset::{self, Clip};
use vos::ffmpeg::Ffmpeg;

use super::disk::Disk;

/// Whether `ffmpeg` is there; says so when it is not.
pub fn ffmpeg() -> Option<Ffmpeg> {
    let found = Ffmpeg::find().ok();
    if found.is_none() {
        eprintln!("SKIPPED: no ffmpeg on PATH (apt-get install ffmpeg)");
    }
    found
}

/// Runs ffmpeg with these words and the path of the file that it is to write.
fn make(disk: &Disk, name: &str, words: &str) -> bool {
    let mut command = Command::new("ffmpeg");
    command.args(["-loglevel", "error", "-nostdin", "-y"]).args(words.split_whitespace());
    command.arg(disk.path(name)).status().unwrap().success()
}

/// A film of 12 frames, 24 a second, 64x48.
fn film(disk: &Disk, name: &str) {
    assert!(make(
        disk,
        name,
        "-f lavfi -i testsrc=size=64x48:rate=24:duration=0.5 -pix_fmt yuv420p"
    ));
}

/// The clip `v` of a split whose only video file is there already.
fn clip(disk: &Disk) -> Result<Clip, dataset::ClipError> {
    disk.mask("Annotations_6fps/v/000/00000.png", (64, 48), 255);
    dataset::open(disk.root(), "sav_val").unwrap().clip("v")
}

/// All pixels of a clip's frame.
fn pixels(clip: &Clip, index: usize) -> Vec<u8> {
    clip.frame(index, clip.frame_size().unwrap()).unwrap().data
}

#[test]
fn frames_come_out_of_films() {
    let Some(ffmpeg) = ffmpeg() else { return };
    let disk = Disk::new();
    film(&disk, "video_fps_24/100%d.mp4");
    film(&disk, "video_fps_24/folder/any.mp4");
    film(&disk, "video_fps_24/mix.MOV");
    for video in ["100%d", "folder", "mix"] {
        disk.mask(&format!("Annotations_6fps/{video}/000/00000.png"), (64, 48), 255);
    }
    let split = dataset::open(disk.root(), "sav_val").unwrap();
    assert_eq!(split.videos(), ["100%d", "folder", "mix"]);
    for video in split.videos() {
        let clip = split.clip(video).unwrap();
        assert_eq!((clip.frames.len(), clip.frame_size().unwrap()), (12, (64, 48)), "{video}");
        assert_ne!(pixels(&clip, 0), pixels(&clip, 11));
        assert_eq!(clip.frame(12, (64, 48)).unwrap_err().code(), "no_such_frame");
        assert_eq!(clip.frame(0, (48, 64)).unwrap_err().code(), "frame_size_change");
        let decoder = clip.frames.decoder().unwrap();
        assert_eq!(decoder, format!("ffmpeg-{}", ffmpeg.version()));
        assert!(decoder.len() > "ffmpeg-4".len() && !decoder.contains(['/', ' ', '\n']));
    }
}

#[test]
fn frames_are_the_videos_own_to_the_last_bit() {
    if ffmpeg().is_none() {
        return;
    }
    // Noise, which a JPEG would blur, kept in RGB without loss; odd sides.
    let (width, height, frames) = (161, 121, 5);
    let mut state = 7_u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(3 * width * height * frames)
    .collect();
    let disk = Disk::new();
    disk.write("raw", &noise);
    let raw = disk.path("raw");
    let words = format!(
        "-f rawvideo -pix_fmt rgb24 -video_size {width}x{height} -framerate 24 -i {} -c:v ffv1 -pix_fmt bgr0",
        raw.display()
    );
    assert!(make(&disk, "video_fps_24/v.mkv", &words));
    let clip = clip(&disk).unwrap();
    assert_eq!((clip.frames.len(), clip.frame_size().unwrap()), (frames, (width, height)));
    for (index, frame) in noise.chunks(3 * width * height).enumerate() {
        assert!(pixels(&clip, index) == frame, "frame {index}");
    }
}

#[test]
fn a_video_of_odd_sides_keeps_them() {
    if ffmpeg().is_none() {
        return;
    }
    let disk = Disk::new();
    let words = "-f lavfi -i testsrc=size=63x47:rate=24:duration=0.25 -c:v mpeg4 -pix_fmt yuv420p";
    assert!(make(&disk, "video_fps_24/v.mp4", words));
    let clip = clip(&disk).unwrap();
    assert_eq!((clip.frames.len(), clip.frame_size().unwrap()), (6, (63, 47)));
    // Of a long video no more is decoded than is asked for.
    let video = disk.path("video_fps_24/v.mp4");
    for (most, frames) in [(4, 4), (9, 6)] {
        assert_eq!(dataset::unannotated(&video, Some(most)).unwrap().frames.len(), frames);
    }
}

#[test]
fn a_video_is_turned_as_its_metadata_says() {
    if ffmpeg().is_none() {
        return;
    }
    let disk = Disk::new();
    film(&disk, "upright.mp4");
    let path = disk.path("upright.mp4");
    // Newer releases have an option for what older ones took as a tag.
    let new = format!("-display_rotation 90 -i {} -c copy", path.display());
    let old = format!("-i {} -c copy -metadata:s:v:0 rotate=270", path.display());
    let made = make(&disk, "video_fps_24/v.mp4", &new) || make(&disk, "video_fps_24/v.mp4", &old);
    assert!(made, "neither way of turning a video is known to this ffmpeg");
    let clip = clip(&disk).unwrap();
    assert_eq!((clip.frames.len(), clip.frame_size().unwrap()), (12, (48, 64)));
}

#[test]
fn frame_n_is_what_a_video_shows_at_n_24ths_of_a_second() {
    if ffmpeg().is_none() {
        return;
    }
    let disk = Disk::new();
    // Half a second of black at 12 frames a second, then half a second of white at 48.
    let words = "-f lavfi -i color=black:size=64x48:rate=12:duration=0.5 \
                 -f lavfi -i color=white:size=64x48:rate=48:duration=0.5 \
                 -filter_complex concat=n=2:v=1:a=0 -fps_mode vfr -pix_fmt yuv420p";
    // Releases before 5.1 know the option by another name, which 9 no longer knows.
    let old = words.replace("-fps_mode", "-vsync");
    let file = "video_fps_24/v.mp4";
    assert!(make(&disk, file, words) || make(&disk, file, &old));
    let clip = clip(&disk).unwrap();
    let white: Vec<bool> =
        (0..clip.frames.len()).map(|index| pixels(&clip, index)[0] > 127).collect();
    assert_eq!(white, (0..24).map(|index| index >= 12).collect::<Vec<_>>());
}

#[test]
fn a_video_that_is_cut_short_is_refused_by_name() {
    if ffmpeg().is_none() {
        return;
    }
    let disk = Disk::new();
    // Its index comes first, so the first frames can be decoded and ffmpeg ends well.
    let words =
        "-f lavfi -i testsrc=size=320x240:rate=24:duration=2 -pix_fmt yuv420p -movflags +faststart";
    assert!(make(&disk, "video_fps_24/v.mp4", words));
    assert_eq!(clip(&disk).unwrap().frames.len(), 48);
    let path = disk.path("video_fps_24/v.mp4");
    let bytes = std::fs::read(&path).unwrap();
    for part in [0.5, 0.8, 0.95] {
        std::fs::write(&path, &bytes[..(bytes.len() as f64 * part) as usize]).unwrap();
        let error = clip(&disk).unwrap_err();
        assert_eq!(error.code(), "damaged_video", "{part}: {error}");
        assert!(error.to_string().contains("v.mp4 is damaged"), "{error}");
    }
}

#[test]
fn a_damaged_film_is_a_status() {
    let Some(ffmpeg) = ffmpeg() else { return };
    let disk = Disk::new();
    disk.write("video_fps_24/v.mp4", b"not a film");
    let error = clip(&disk).unwrap_err();
    assert_eq!(error.code(), "ffmpeg_failed");
    assert!(error.to_string().contains("v.mp4"), "{error}");
    // Sound alone.
    assert!(make(&disk, "video_fps_24/v.mp4", "-f lavfi -i sine=duration=0.2"));
    assert_eq!(clip(&disk).unwrap_err().code(), "ffmpeg_failed");
    assert!(ffmpeg.frames(&disk.root().join("gone.mp4"), None).is_err());
    let absent = Ffmpeg::at(disk.root().join("no-such-program"));
    let error = absent.frames(&disk.root().join("video_fps_24/v.mp4"), None).unwrap_err();
    assert!(error.to_string().contains("cannot run ffmpeg"), "{error}");
}

#[test]
fn a_film_without_ffmpeg_says_what_to_install() {
    if Ffmpeg::find().is_ok() {
        eprintln!("SKIPPED: ffmpeg is here; run with a PATH without it");
        return;
    }
    let disk = Disk::new();
    disk.write("video_fps_24/v.mp4", b"never opened");
    disk.mask("Annotations_6fps/v/000/00000.png", (64, 48), 255);
    let error = dataset::open(disk.root(), "sav_val").unwrap().clip("v").unwrap_err();
    assert_eq!(error.code(), "ffmpeg_missing");
    assert!(error.to_string().contains("apt-get install ffmpeg"), "{error}");
}

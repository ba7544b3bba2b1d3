/*!
Videos instead of JPEGs, through a real `ffmpeg`; skipped loudly where there is none.
*/

use std::process::Command;

use segtrt::dataset;
use segtrt::ffmpeg::Ffmpeg;

use super::disk::Disk;

/// Whether `ffmpeg` is there; says so when it is not.
pub fn ffmpeg() -> Option<Ffmpeg> {
    let found = Ffmpeg::find().ok();
    if found.is_none() {
        eprintln!("SKIPPED: no ffmpeg on PATH (apt-get install ffmpeg)");
    }
    found
}

/// A film of 12 frames, 24 a second, 64x48.
fn film(disk: &Disk, name: &str) {
    let status = Command::new("ffmpeg")
        .args(["-loglevel", "error", "-nostdin", "-y", "-f", "lavfi"])
        .args(["-i", "testsrc=size=64x48:rate=24:duration=0.5", "-pix_fmt", "yuv420p"])
        .arg(disk.path(name))
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn frames_come_out_of_films_and_vanish_with_the_clip() {
    if ffmpeg().is_none() {
        return;
    }
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
        assert_ne!(clip.frame(0, (64, 48)).unwrap(), clip.frame(11, (64, 48)).unwrap());
        let folder = clip.frames[0].parent().unwrap().to_path_buf();
        assert!(folder.is_dir());
        drop(clip);
        assert!(!folder.exists(), "{} is left behind", folder.display());
    }
}

#[test]
fn a_damaged_film_is_a_status_and_leaves_nothing() {
    let Some(ffmpeg) = ffmpeg() else { return };
    let disk = Disk::new();
    disk.write("video_fps_24/v.mp4", b"not a film");
    disk.mask("Annotations_6fps/v/000/00000.png", (64, 48), 255);
    let error = dataset::open(disk.root(), "sav_val").unwrap().clip("v").unwrap_err();
    assert_eq!(error.code(), "ffmpeg_failed");
    assert!(error.to_string().contains("v.mp4"), "{error}");
    assert!(ffmpeg.extract_frames(&disk.root().join("gone.mp4")).is_err());
    let absent = Ffmpeg::at(disk.root().join("no-such-program"));
    let error = absent.extract_frames(&disk.root().join("video_fps_24/v.mp4")).unwrap_err();
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

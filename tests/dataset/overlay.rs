/*!
Overlays as mp4 through a real `ffmpeg`, and as PNG frames without it.
*/

use std::process::Command;

use vos::decode::RgbImage;
use vos::ffmpeg::Ffmpeg;
use vos::mask::Mask;
use vos::overlay::{Layers, OverlayWriter};
use vos::record::ObjectKey;

use super::film::ffmpeg;

const SIZE: (usize, usize) = (45, 31);

fn frame() -> RgbImage {
    RgbImage { width: SIZE.0, height: SIZE.1, data: [60, 61, 200].repeat(SIZE.0 * SIZE.1) }
}

fn square() -> Mask {
    Mask::from_fn(SIZE.0, SIZE.1, |x, y| (10..30).contains(&x) && (5..25).contains(&y))
}

fn key(video: &str, object: &str, model: &str) -> ObjectKey {
    ObjectKey { video: video.into(), object: object.into(), tag: model.into() }
}

fn layers(mask: Option<&Mask>) -> Layers<'_> {
    Layers { mask, ..Layers::default() }
}

/// Names in a folder, hidden ones too.
fn listing(dir: &std::path::Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn without_ffmpeg_the_frames_are_pngs() {
    let dir = tempfile::tempdir().unwrap();
    for masks in [vec![Some(square()), None, None], vec![Some(square()), None]] {
        let mut writer =
            OverlayWriter::create_with(None, dir.path(), &key("v", "000", "edgetam_bbox"), SIZE, 1)
                .unwrap();
        for mask in &masks {
            writer.write(&frame(), layers(mask.as_ref())).unwrap();
        }
        let path = writer.finish().unwrap();
        assert_eq!(path, dir.path().join("v__obj000__edgetam_bbox"));
        let expected: Vec<_> = (0..masks.len()).map(|i| format!("{i:05}.png")).collect();
        assert_eq!(listing(&path), expected, "a second run replaces the first");
    }
    assert_eq!(listing(dir.path()), ["v__obj000__edgetam_bbox"]);
    let file = std::fs::File::open(dir.path().join("v__obj000__edgetam_bbox/00000.png")).unwrap();
    let mut reader = png::Decoder::new(std::io::BufReader::new(file)).read_info().unwrap();
    let mut rgb = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut rgb).unwrap();
    let pixel = |x: usize, y: usize| &rgb[3 * (y * SIZE.0 + x)..][..3];
    assert_eq!(
        (pixel(0, 0), pixel(20, 15), pixel(10, 5)),
        (&[60, 61, 200][..], &[60, 158, 200][..], &[0, 255, 0][..])
    );
}

#[test]
fn with_ffmpeg_there_is_an_mp4_of_even_size_and_all_frames() {
    let Some(ffmpeg) = ffmpeg().filter(|ffmpeg| ffmpeg.has_encoder("libx264")) else {
        eprintln!("SKIPPED: no ffmpeg with libx264");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (video, object, tag) = ("v", "1", "sam2_tiny_points");
    let mut writer =
        OverlayWriter::create_with(Some(ffmpeg), dir.path(), &key(video, object, tag), SIZE, 1)
            .unwrap();
    for _ in 0..7 {
        writer.write(&frame(), layers(Some(&square()))).unwrap();
    }
    let path = writer.finish().unwrap();
    assert_eq!(path, dir.path().join("v__obj1__sam2_tiny_points.mp4"));
    assert_eq!(listing(dir.path()), ["v__obj1__sam2_tiny_points.mp4"]);
    let raw = Command::new("ffmpeg")
        .args(["-loglevel", "error", "-nostdin", "-i"])
        .arg(&path)
        .args(["-f", "rawvideo", "-pix_fmt", "rgb24", "-"])
        .output()
        .unwrap();
    assert_eq!(raw.stdout.len(), 7 * 46 * 32 * 3, "{}", String::from_utf8_lossy(&raw.stderr));
    let inside = &raw.stdout[3 * (15 * 46 + 20)..][..3];
    let near = |byte: u8, expected: i32| (i32::from(byte) - expected).abs() < 12;
    assert!(near(inside[0], 60) && near(inside[1], 158) && near(inside[2], 200), "{inside:?}");
}

#[test]
fn what_is_not_finished_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for ffmpeg in [None, Ffmpeg::find().ok()] {
        let mut writer =
            OverlayWriter::create_with(ffmpeg, dir.path(), &key("v", "0", "t"), SIZE, 1).unwrap();
        writer.write(&frame(), Layers::default()).unwrap();
        let wrong = RgbImage { width: 2, height: 2, data: vec![0; 12] };
        assert!(
            writer
                .write(&wrong, Layers::default())
                .unwrap_err()
                .to_string()
                .contains("another size")
        );
        let small = Mask::new(3, 3);
        assert!(writer.write(&frame(), layers(Some(&small))).is_err());
        let truth = Layers { truth: Some(&small), ..Layers::default() };
        assert!(writer.write(&frame(), truth).is_err());
    }
    assert!(listing(dir.path()).is_empty());
    let bad = OverlayWriter::create_with(None, dir.path(), &key("../v", "0", "t"), SIZE, 1);
    assert!(bad.unwrap_err().to_string().contains("path separator"));
}

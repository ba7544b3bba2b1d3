/*!
Discovery in the SA-V layout.
*/

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use vos::dataset::sav::SavSplit;
use vos::dataset::{self, Dataset as _};

use super::disk::{Disk, names};

#[test]
fn the_manifest_gives_the_order_and_folders_do_without_one() {
    let disk = Disk::new();
    for video in ["b", "a", "C"] {
        disk.sav_video(video, 1);
    }
    disk.write("JPEGImages_24fps/readme.txt", b"");
    let split = SavSplit::open(disk.root(), "sav_val").unwrap();
    assert_eq!(split.videos(), ["C", "a", "b"], "sorted by code point, files left out");
    disk.write("sav_val.txt", b"b\r\n\n  a  \nabsent\n");
    let split = SavSplit::open(disk.root(), "sav_val").unwrap();
    assert_eq!(split.videos(), ["b", "a", "absent"], "file order, stripped, not checked");
    assert_eq!(SavSplit::open(disk.root(), "other").unwrap().videos(), ["C", "a", "b"]);
    assert_eq!(split.root(), disk.root());
}

#[test]
fn frames_are_sorted_jpgs_and_objects_have_integer_stems() {
    let disk = Disk::new();
    for name in ["00001.jpg", "00000.jpg", "2.jpg", "x.JPG", "y.png", ".z.jpg"] {
        disk.jpeg(&format!("JPEGImages_24fps/v/{name}"), (32, 16));
    }
    for name in ["00004.png", "00000.png", "notes.png", "8.png", "00008.png", "0.png", "00012.jpg"]
    {
        disk.mask(&format!("Annotations_6fps/v/007/{name}"), (32, 16), 1);
    }
    disk.write("Annotations_6fps/v/000/readme.txt", b"no mask here");
    disk.mask("Annotations_6fps/v/001/00004.png", (32, 16), 200);
    let clip = SavSplit::open(disk.root(), "sav_val").unwrap().clip("v").unwrap();
    assert_eq!(names(clip.frames.files()), ["00000.jpg", "00001.jpg", "2.jpg"]);
    let objects: Vec<_> = clip.objects.iter().map(|object| object.name.as_str()).collect();
    assert_eq!(objects, ["001", "007"], "objects without masks are dropped");
    let object = &clip.objects[1];
    assert_eq!(object.masks.keys().copied().collect::<Vec<_>>(), [0, 4, 8]);
    assert_eq!(names(object.masks.values()), ["00000.png", "00004.png", "00008.png"]);
    assert_eq!(clip.objects[0].prompt_index(), Some(4));
    assert_eq!(clip.objects[0].mask(4, (32, 16)).unwrap().area(), 16 * 16);
    assert_eq!(clip.frame_size().unwrap(), (32, 16));
    assert_eq!(clip.frame(2, (32, 16)).unwrap().data.len(), 3 * 32 * 16);
}

#[test]
fn a_mask_is_never_scored_against_another_frame_than_its_number_says() {
    let disk = Disk::new();
    disk.sav_video("v", 12);
    let split = SavSplit::open(disk.root(), "sav_val").unwrap();
    let frame = |name: &str| disk.path(&format!("JPEGImages_24fps/v/{name}"));
    // By name 10 and 11 come in front of 2.
    for index in 0..12 {
        std::fs::rename(frame(&format!("{index:05}.jpg")), frame(&format!("{index}.jpg"))).unwrap();
    }
    let clip = split.clip("v").unwrap();
    let file = |index| clip.frames.file(index).and_then(Path::file_name).unwrap();
    assert_eq!((0..12).map(file).collect::<Vec<_>>(), {
        (0..12).map(|index| OsString::from(format!("{index}.jpg"))).collect::<Vec<_>>()
    });
    // A missing frame would give each later mask the next frame.
    std::fs::remove_file(frame("3.jpg")).unwrap();
    for error in [split.clip("v").unwrap_err(), split.outline("v").unwrap_err()] {
        assert_eq!(error.code(), "frame_names");
        for part in ["JPEGImages_24fps/v", "frame 3 is missing", "4.jpg", "00000.jpg"] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
    disk.jpeg("JPEGImages_24fps/v/3.jpg", (32, 16));
    std::fs::remove_file(frame("11.jpg")).unwrap();
    disk.mask("Annotations_6fps/v/000/00012.png", (32, 16), 255);
    let clip = split.clip("v").unwrap();
    assert_eq!(clip.frames.len(), 11);
    assert!(clip.remarks[0].contains("has 11 frames") && clip.remarks[0].contains("00012.png"));
}

#[test]
fn nothing_is_left_out_because_its_name_is_not_utf8() {
    let disk = Disk::new();
    disk.sav_video("v", 2);
    let odd = |name: &str, bytes: &[u8]| disk.path(name).join(OsStr::from_bytes(bytes));
    std::fs::create_dir_all(odd("JPEGImages_24fps", b"clip\xff")).unwrap();
    let split = SavSplit::open(disk.root(), "sav_val").unwrap();
    assert_eq!(split.videos(), ["clip\u{fffd}", "v"]);
    let error = split.clip("clip\u{fffd}").unwrap_err();
    assert_eq!(error.code(), "not_utf8");
    assert!(error.to_string().contains(r#"clip\xFF" is not UTF-8; rename it"#), "{error}");
    assert!(split.clip("v").is_ok());
    // An object, and a frame.
    let object = odd("Annotations_6fps/v", b"00\xff");
    std::fs::create_dir(&object).unwrap();
    assert_eq!(split.clip("v").unwrap_err().code(), "not_utf8");
    std::fs::remove_dir(&object).unwrap();
    std::fs::write(odd("JPEGImages_24fps/v", b"00\xff.jpg"), b"").unwrap();
    let error = split.clip("v").unwrap_err();
    assert_eq!(error.code(), "frame_names");
    assert!(error.to_string().contains(r#"00\xFF.jpg"#), "{error}");
    // Video files.
    let disk = Disk::new();
    disk.mask("Annotations_6fps/v/000/00000.png", (32, 16), 255);
    std::fs::write(
        disk.path("video_fps_24/x").with_file_name(OsStr::from_bytes(b"f\xff.mp4")),
        b"",
    )
    .unwrap();
    let split = SavSplit::open(disk.root(), "sav_val").unwrap();
    assert_eq!(split.videos(), ["f\u{fffd}"]);
    assert_eq!(split.clip("f\u{fffd}").unwrap_err().code(), "not_utf8");
}

#[test]
fn the_size_of_a_clip_is_known_without_opening_its_film() {
    let disk = Disk::new();
    disk.sav_video("v", 5);
    disk.write("video_fps_24/film.mp4", b"never opened");
    disk.mask("Annotations_6fps/film/000/00000.png", (32, 16), 1);
    disk.mask("Annotations_6fps/film/001/00096.png", (32, 16), 1);
    let split = SavSplit::open(disk.root(), "sav_val").unwrap();
    let size = |video: &str| split.outline(video).map(|clip| (clip.frames, clip.objects));
    assert_eq!(size("v").unwrap(), (5, 1));
    assert_eq!(size("film").unwrap(), (97, 2));
    assert_eq!(size("absent").unwrap_err().code(), split.clip("absent").unwrap_err().code());
}

#[test]
fn sixteen_bit_and_palette_masks_are_foreground_where_not_zero() {
    let disk = Disk::new();
    disk.sav_video("v", 5);
    let samples = [0, 3, 3, 0].repeat(4);
    let name = "Annotations_6fps/v/000/00000.png";
    disk.png(name, (4, 4), png::ColorType::Indexed, &samples);
    let file = std::fs::File::create(disk.path("Annotations_6fps/v/000/00004.png")).unwrap();
    let mut encoder = png::Encoder::new(file, 4, 4);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Sixteen);
    // 256 has a low byte of zero: a decoder that strips to 8 bits from the wrong end loses it.
    let wide: Vec<u8> = [0_u16, 256, 1, 0].repeat(4).iter().flat_map(|v| v.to_be_bytes()).collect();
    encoder.write_header().unwrap().write_image_data(&wide).unwrap();
    let clip = SavSplit::open(disk.root(), "sav_val").unwrap().clip("v").unwrap();
    for index in [0, 4] {
        let mask = clip.objects[0].mask(index, (32, 16)).unwrap();
        assert_eq!(mask.area(), 8, "mask {index}");
        assert!(mask.get(1, 0) && mask.get(2, 3) && !mask.get(0, 0));
    }
}

#[test]
fn the_shared_davis_clips_open_as_a_sav_split() {
    let data = std::env::var_os("SEGTRT_SHARED_DATA")
        .map_or("../shared/data".into(), std::path::PathBuf::from);
    let dir = data.join("davis16");
    if !dir.is_dir() {
        eprintln!(
            "SKIPPED: no {}; set SEGTRT_SHARED_DATA to the shared data folder",
            dir.display()
        );
        return;
    }
    let split = dataset::open(&dir, "sav_val").unwrap();
    let mut frames = 0;
    for video in split.videos() {
        let clip = split.clip(video).unwrap();
        let size = clip.frame_size().unwrap();
        assert_eq!(size, (854, 480), "{video}");
        frames += clip.frames.len();
        for object in &clip.objects {
            for &index in object.masks.keys() {
                assert!(
                    !object.mask_of_size(index, 854, 480).unwrap().is_empty(),
                    "{video} {index}"
                );
            }
        }
        clip.frame(clip.frames.len() - 1, size).unwrap();
    }
    assert_eq!((split.videos().len(), frames), (4, 199));
}

/*!
The DAVIS layout, 2016 and 2017.
*/

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use png::ColorType;
use vos::dataset::davis::DavisSplit;
use vos::dataset::{self, Dataset as _};
use vos::mask::Mask;
use vos::metrics::{MetricsKind, Scorer};

use super::disk::Disk;

const SIZE: (usize, usize) = (4, 2);

/// Two frames of 4x2 pixels; the first mask has the given samples, the second shows object 1 alone.
fn video(disk: &Disk, name: &str, color: ColorType, first: &[u8]) {
    for frame in ["00000", "00001"] {
        disk.jpeg(&format!("JPEGImages/480p/{name}/{frame}.jpg"), (4, 2));
    }
    disk.png(&format!("Annotations/480p/{name}/00000.png"), (4, 2), color, first);
    let second = [0, 0, 0, 1, 1, 0, 0, 0];
    disk.png(&format!("Annotations/480p/{name}/00001.png"), (4, 2), ColorType::Indexed, &second);
}

#[test]
fn objects_are_the_ids_of_the_first_mask() {
    let disk = Disk::new();
    video(&disk, "dogs", ColorType::Indexed, &[0, 1, 1, 3, 0, 3, 255, 255]);
    let split = dataset::open(disk.root(), "val").unwrap();
    assert_eq!(split.videos(), ["dogs"]);
    let clip = split.clip("dogs").unwrap();
    let found: Vec<_> = clip.objects.iter().map(|o| (o.name.as_str(), o.id)).collect();
    assert_eq!(found, [("1", Some(1)), ("3", Some(3))], "255 is no object");
    assert_eq!(
        clip.objects[1].mask(0, SIZE).unwrap().pixels().collect::<Vec<_>>(),
        [(3, 0), (1, 1)]
    );
    assert_eq!(clip.objects[0].mask(1, SIZE).unwrap().area(), 2);
    assert!(clip.objects[1].mask(1, SIZE).unwrap().is_empty(), "object 3 has left");
}

#[test]
fn a_white_mask_is_one_object() {
    let disk = Disk::new();
    video(&disk, "swan", ColorType::Grayscale, &[0, 255, 255, 0, 0, 0, 0, 0]);
    let clip = DavisSplit::open(disk.root(), "val").unwrap().clip("swan").unwrap();
    assert_eq!(clip.objects.len(), 1);
    assert_eq!((clip.objects[0].name.as_str(), clip.objects[0].id), ("1", None));
    assert_eq!(clip.objects[0].mask(0, SIZE).unwrap().area(), 2);
}

#[test]
fn masks_belong_to_the_frame_of_their_name() {
    let disk = Disk::new();
    video(&disk, "v", ColorType::Indexed, &[1; 8]);
    disk.jpeg("JPEGImages/480p/v/00002.jpg", (4, 2));
    std::fs::remove_file(disk.path("Annotations/480p/v/00000.png")).unwrap();
    disk.png("Annotations/480p/v/00007.png", (4, 2), ColorType::Indexed, &[1; 8]);
    let clip = DavisSplit::open(disk.root(), "val").unwrap().clip("v").unwrap();
    assert_eq!(clip.objects[0].masks.keys().copied().collect::<Vec<_>>(), [1]);
}

#[test]
fn a_255_of_a_2017_mask_is_background_when_it_is_scored() {
    // davis2017-evaluation sets 255 to 0 as it loads a mask, so its semi-supervised task leaves
    // nothing out.
    let truth = [0, 1, 1, 0, 0, 255, 255, 0];
    let disk = Disk::new();
    video(&disk, "v", ColorType::Indexed, &truth);
    for frame in ["00001", "00002"] {
        disk.jpeg(&format!("JPEGImages/480p/v/{frame}.jpg"), (4, 2));
        disk.png(&format!("Annotations/480p/v/{frame}.png"), (4, 2), ColorType::Indexed, &truth);
    }
    let clip = DavisSplit::open(disk.root(), "val").unwrap().clip("v").unwrap();
    // Both pixels of the object and both void ones: 2 of 4.
    let prediction = Mask::from_fn(4, 2, |x, _| x == 1 || x == 2);
    let mut scorer = Scorer::new(MetricsKind::Official);
    for index in 0..3 {
        let truth = clip.objects[0].mask(index, SIZE).unwrap();
        scorer.push(Some(&truth), Some(&prediction));
    }
    let found = scorer.finish().unwrap();
    assert_eq!((found.j, found.scored_frames), (0.5, 1));
}

#[test]
fn frames_are_in_the_order_of_their_numbers() {
    let disk = Disk::new();
    for frame in 0..11 {
        disk.jpeg(&format!("JPEGImages/480p/v/{frame}.jpg"), (4, 2));
    }
    disk.png("Annotations/480p/v/10.png", (4, 2), ColorType::Indexed, &[1; 8]);
    let split = DavisSplit::open(disk.root(), "val").unwrap();
    let clip = split.clip("v").unwrap();
    assert!(clip.frames.file(10).unwrap().ends_with("10.jpg"));
    assert_eq!(clip.objects[0].prompt_index(), Some(10));
    let odd = OsStr::from_bytes(b"1\xff.jpg");
    std::fs::rename(disk.path("JPEGImages/480p/v/9.jpg"), disk.path("JPEGImages/480p/v").join(odd))
        .unwrap();
    let error = split.clip("v").unwrap_err();
    assert_eq!(error.code(), "not_utf8");
    assert!(error.to_string().contains(r#"1\xFF.jpg"#), "{error}");
}

#[test]
fn lists_of_all_three_kinds_are_read() {
    let disk = Disk::new();
    for name in ["a", "b", "c"] {
        video(&disk, name, ColorType::Indexed, &[1; 8]);
    }
    let pairs = "/JPEGImages/480p/c/00000.jpg /Annotations/480p/c/00000.png\n\
                 /JPEGImages/480p/c/00001.jpg /Annotations/480p/c/00001.png\n\
                 /JPEGImages/480p/a/00000.jpg /Annotations/480p/a/00000.png\n";
    disk.write("ImageSets/480p/old.txt", pairs.as_bytes());
    disk.write("ImageSets/2016/val.txt", b"a\n");
    disk.write("ImageSets/2017/val.txt", b"b\na\n");
    let videos = |name: &str| DavisSplit::open(disk.root(), name).unwrap().videos().to_vec();
    assert_eq!(videos("val"), ["b", "a"], "2017 comes first");
    assert_eq!(videos("old"), ["c", "a"], "each video once, in order");
    let message = dataset::open(disk.root(), "sav_val").unwrap_err().to_string();
    assert!(message.contains("sav_val.txt") && message.contains("--split-name val"), "{message}");
}

#[test]
fn colour_masks_without_ids_are_refused() {
    let disk = Disk::new();
    let rgb = [9, 0, 0, 0, 9, 0].repeat(4);
    video(&disk, "v", ColorType::Rgb, &rgb);
    let error = DavisSplit::open(disk.root(), "val").unwrap().clip("v").unwrap_err();
    assert_eq!(error.code(), "mask_without_ids");
    assert!(error.to_string().contains("00000.png") && error.to_string().contains("indexed"));
    video(&disk, "v", ColorType::Indexed, &[1; 8]);
    disk.png("Annotations/480p/v/00001.png", (4, 2), ColorType::Rgb, &rgb);
    let clip = DavisSplit::open(disk.root(), "val").unwrap().clip("v").unwrap();
    assert_eq!(clip.objects[0].mask(1, SIZE).unwrap_err().code(), "mask_without_ids");
}

#[test]
fn faults_of_a_clip_have_a_status() {
    let disk = Disk::new();
    video(&disk, "v", ColorType::Indexed, &[0; 8]);
    disk.jpeg("JPEGImages/480p/bare/00000.jpg", (4, 2));
    disk.write("JPEGImages/480p/none/readme", b"");
    let split = DavisSplit::open(disk.root(), "val").unwrap();
    for (video, code) in [
        ("v", "no_annotations"),
        ("bare", "no_annotations"),
        ("none", "no_frames"),
        ("gone", "missing_video"),
        ("../v", "bad_video_id"),
    ] {
        assert_eq!(split.clip(video).unwrap_err().code(), code, "{video}");
    }
    disk.write("Annotations/480p/v/00000.png", b"no png");
    assert_eq!(split.clip("v").unwrap_err().code(), "unreadable_mask");
    std::fs::remove_dir_all(disk.root().join("Annotations")).unwrap();
    let message = dataset::open(disk.root(), "val").unwrap_err().to_string();
    assert!(message.contains("Missing Annotations/480p directory"), "{message}");
}

/*!
The layout of YouTube-VOS, MOSE and LVOS: its refusals. `golden` reads whole splits.
*/

use png::ColorType;
use vos::dataset::{self, ClipError, Dataset};

use super::disk::Disk;

const SIZE: (u32, u32) = (4, 2);

/// Frames 00000, 00005 and 00010; object 1 on all masks, object 2 from the second on.
fn split() -> Disk {
    let disk = Disk::new();
    for (stem, samples) in [
        ("00000", [0, 1, 1, 0, 0, 0, 0, 0]),
        ("00005", [0, 1, 1, 2, 0, 0, 0, 2]),
        ("00010", [0, 1, 1, 0, 2, 2, 255, 0]),
    ] {
        disk.jpeg(&format!("JPEGImages/v/{stem}.jpg"), (4, 2));
        disk.png(&format!("Annotations/v/{stem}.png"), SIZE, ColorType::Indexed, &samples);
    }
    disk
}

fn opened(disk: &Disk) -> Box<dyn Dataset> {
    dataset::open(disk.root(), "sav_val").unwrap()
}

fn fault(disk: &Disk) -> ClipError {
    opened(disk).clip("v").unwrap_err()
}

/// The message of a split that does not open; it must have all these parts.
fn refused(disk: &Disk, parts: &[&str]) {
    let message = format!("{:#}", dataset::open(disk.root(), "sav_val").unwrap_err());
    for part in parts {
        assert!(message.contains(part), "no {part:?} in: {message}");
    }
}

fn said(error: &ClipError, code: &str, parts: &[&str]) {
    assert_eq!(error.code(), code, "{error}");
    for part in parts {
        assert!(error.to_string().contains(part), "no {part:?} in: {error}");
    }
}

#[test]
fn a_list_names_the_videos_and_void_is_no_object() {
    let disk = split();
    let clip = opened(&disk).clip("v").unwrap();
    let found: Vec<_> = clip.objects.iter().map(|o| (o.name.as_str(), o.prompt_index())).collect();
    assert_eq!(found, [("1", Some(0)), ("2", Some(1))]);
    disk.write("sav_val.txt", b"v\n");
    disk.jpeg("JPEGImages/other/00000.jpg", (4, 2));
    assert_eq!(opened(&disk).videos(), ["v"]);
    std::fs::remove_file(disk.path("sav_val.txt")).unwrap();
    assert_eq!(opened(&disk).videos(), ["other", "v"]);
}

#[test]
fn a_mask_without_a_frame_is_named() {
    let disk = split();
    std::fs::remove_file(disk.path("JPEGImages/v/00005.jpg")).unwrap();
    let parts = ["Annotations/v/00005.png", "expected", "JPEGImages/v/00005.jpg"];
    said(&fault(&disk), "mask_without_frame", &parts);
}

#[test]
fn masks_that_cannot_be_read_are_named() {
    let disk = split();
    disk.png("Annotations/v/00005.png", SIZE, ColorType::Rgb, &[9; 24]);
    said(&fault(&disk), "mask_without_ids", &["00005.png", "indexed"]);
    disk.write("Annotations/v/00005.png", b"no png");
    said(&fault(&disk), "unreadable_mask", &["00005.png"]);
    std::fs::remove_dir_all(disk.path("Annotations/v")).unwrap();
    said(&fault(&disk), "no_annotations", &["Annotations/v/00000.png"]);
}

#[test]
fn meta_json_is_checked() {
    let disk = split();
    let meta = |text: &str| disk.write("meta.json", text.as_bytes());
    meta(r#"{"videos": {"w": {"objects": {"1": {"frames": ["00000"]}}}}}"#);
    assert_eq!(opened(&disk).videos(), ["w"]);
    said(&opened(&disk).clip("w").unwrap_err(), "missing_video", &["'w'"]);
    said(&fault(&disk), "not_listed", &["meta.json", "'v'"]);
    meta(r#"{"videos": {"v": {"objects": {"3": {"frames": ["00000"]}}}}}"#);
    let clip = opened(&disk).clip("v").unwrap();
    assert_eq!((clip.objects[0].name.as_str(), clip.objects[0].prompt_index()), ("3", None));
    assert!(clip.remarks[0].contains("lists object 3"), "{:?}", clip.remarks);
    meta(r#"{"videos": {"v": {"objects": {"cat": {}}}}}"#);
    refused(&disk, &["meta.json", "\"cat\"", "from 1 to 254"]);
    meta(r#"{"images": []}"#);
    refused(&disk, &["meta.json", "YouTube-VOS", "videos"]);
    meta("{");
    refused(&disk, &["meta.json", "expected"]);
    meta(r#"{"videos": {}}"#);
    refused(&disk, &["has no video", "meta.json"]);
}

#[test]
fn the_folder_of_a_whole_data_set_names_the_split_in_it() {
    let disk = Disk::new();
    disk.jpeg("valid/JPEGImages/v/00000.jpg", (4, 2));
    refused(&disk, &["is not a video split", "YouTube-VOS", "Try --split-dir", "/valid"]);
    let disk = Disk::new();
    disk.jpeg("JPEGImages/v/00000.jpg", (4, 2));
    refused(&disk, &["Missing Annotations directory", "YouTube-VOS, MOSE"]);
}

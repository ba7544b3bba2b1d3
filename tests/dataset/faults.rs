/*!
What can be wrong with a split: each fault is a message or a status with the file, what was found, what
was expected and what to do; none ends the run for the rest.
*/

use vos::dataset::sav::SavSplit;
use vos::dataset::{self, Dataset as _};
use vos::prompt::{ObjectPrompt, PromptKind, PromptPolicy};

use super::disk::Disk;

/// The message of a split that does not open; it must have all these parts.
fn refused(disk: &Disk, name: &str, parts: &[&str]) {
    let message = format!("{:#}", dataset::open(disk.root(), name).unwrap_err());
    for part in parts {
        assert!(message.contains(part), "no {part:?} in: {message}");
    }
}

/// The status and message of the prompt for the only object of video `v`.
fn prompt_fault(disk: &Disk) -> (&'static str, String) {
    let clip = SavSplit::open(disk.root(), "sav_val").unwrap().clip("v").unwrap();
    let size = clip.frame_size().unwrap();
    let policy = PromptPolicy::Predecessor;
    let error =
        ObjectPrompt::new(&clip.objects[0], clip.frames.len(), size, PromptKind::Points, policy)
            .unwrap_err();
    (error.code(), error.to_string())
}

#[test]
fn a_missing_split_says_what_to_type() {
    let disk = Disk::new();
    let absent = disk.root().join("nowhere");
    let message = dataset::open(&absent, "sav_val").unwrap_err().to_string();
    for part in ["nowhere", "does not exist", "--split-dir", "segtrt synth"] {
        assert!(message.contains(part), "no {part:?} in: {message}");
    }
    disk.write("file", b"");
    let message = dataset::open(&disk.root().join("file"), "sav_val").unwrap_err().to_string();
    assert!(message.contains("is a file"), "{message}");
}

#[test]
fn a_folder_with_neither_layout_says_what_was_found_and_expected() {
    let disk = Disk::new();
    refused(
        &disk,
        "sav_val",
        &["is not a video split", "JPEGImages_24fps/", "an empty folder", "480p"],
    );
    disk.write("holiday.mov", b"");
    refused(&disk, "sav_val", &["holiday.mov", "Annotations_6fps", "--split-dir"]);
    refused(&disk, "../sav_val", &["plain name", "--split-name"]);
}

#[test]
fn half_a_split_names_the_missing_half() {
    let disk = Disk::new();
    disk.jpeg("JPEGImages_24fps/v/00000.jpg", (8, 8));
    refused(&disk, "sav_val", &["Missing Annotations_6fps directory", "JPEGImages_24fps"]);
    let disk = Disk::new();
    disk.mask("Annotations_6fps/v/000/00000.png", (8, 8), 1);
    refused(&disk, "sav_val", &["Missing JPEGImages_24fps directory", "video_fps_24"]);
}

#[test]
fn an_empty_split_is_refused() {
    let disk = Disk::new();
    for dir in ["JPEGImages_24fps", "Annotations_6fps"] {
        std::fs::create_dir(disk.root().join(dir)).unwrap();
    }
    refused(&disk, "sav_val", &["names no video", "sav_val.txt", "segtrt synth"]);
    disk.write("sav_val.txt", b"\n  \n");
    refused(&disk, "sav_val", &["lists no video"]);
    disk.write("sav_val.txt", b"\xFF\xFE\x00");
    refused(&disk, "sav_val", &["cannot read the manifest", "sav_val.txt", "UTF-8"]);
}

#[test]
fn absent_videos_of_a_manifest_fail_alone() {
    let disk = Disk::new();
    disk.sav_video("v", 2);
    disk.write("sav_val.txt", b"gone\nv\n../v\n/etc\n..\n");
    let split = dataset::open(disk.root(), "sav_val").unwrap();
    let error = split.clip("gone").unwrap_err();
    assert_eq!(error.code(), "missing_video");
    assert!(error.to_string().contains("'gone'") && error.to_string().contains("manifest"));
    for outside in ["../v", "/etc", "..", ""] {
        assert_eq!(split.clip(outside).unwrap_err().code(), "bad_video_id", "{outside}");
    }
    assert_eq!(split.clip("v").unwrap().frames.len(), 2);
}

#[test]
fn clips_without_frames_or_annotations_have_a_status() {
    let disk = Disk::new();
    disk.write("JPEGImages_24fps/v/00000.JPG", b"");
    disk.sav_video("w", 1);
    disk.jpeg("JPEGImages_24fps/x/00000.jpg", (8, 8));
    let split = SavSplit::open(disk.root(), "sav_val").unwrap();
    let error = split.clip("v").unwrap_err();
    assert_eq!(error.code(), "no_frames");
    assert!(error.to_string().contains("No frames found, skipping"), "{error}");
    let error = split.clip("x").unwrap_err();
    assert_eq!(error.code(), "no_annotations");
    assert!(error.to_string().contains("No annotations found, skipping"), "{error}");
}

#[test]
fn a_corrupt_frame_in_the_middle_fails_alone() {
    let disk = Disk::new();
    disk.sav_video("v", 3);
    let path = disk.path("JPEGImages_24fps/v/00001.jpg");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() * 2 / 3]).unwrap();
    let clip = SavSplit::open(disk.root(), "sav_val").unwrap().clip("v").unwrap();
    let size = clip.frame_size().unwrap();
    assert!(clip.frame(0, size).is_ok() && clip.frame(2, size).is_ok());
    let error = clip.frame(1, size).unwrap_err();
    assert_eq!(error.code(), "unreadable_frame");
    assert!(error.to_string().contains("00001.jpg"), "{error}");
    assert_eq!(clip.frame(3, size).unwrap_err().code(), "no_such_frame");
}

#[test]
fn a_size_change_inside_a_clip_is_found() {
    let disk = Disk::new();
    disk.sav_video("v", 3);
    disk.jpeg("JPEGImages_24fps/v/00002.jpg", (16, 32));
    let clip = SavSplit::open(disk.root(), "sav_val").unwrap().clip("v").unwrap();
    let error = clip.frame(2, clip.frame_size().unwrap()).unwrap_err();
    assert_eq!(error.code(), "frame_size_change");
    for part in ["00002.jpg", "16x32", "32x16"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn sizes_are_compared_before_anything_is_decoded() {
    let disk = Disk::new();
    disk.sav_video("v", 9);
    let split = SavSplit::open(disk.root(), "sav_val").unwrap();
    // Headers alone: what decoded them would find them damaged. A JPEG's scan begins behind twelve
    // bytes.
    let cut = |name: &str, behind: &[u8], more: usize, end: &[u8]| {
        let bytes = std::fs::read(disk.path(name)).unwrap();
        let at = bytes.windows(behind.len()).position(|part| part == behind).unwrap();
        let header = &bytes[..at + behind.len() + more];
        std::fs::write(disk.path(name), [header, end].concat()).unwrap();
    };
    for (name, size) in [("00000", (16, 16)), ("00004", (400, 400)), ("00008", (128, 64))] {
        let name = format!("Annotations_6fps/v/000/{name}.png");
        disk.mask(&name, size, 255);
        cut(&name, b"IDAT", 0, &[]);
    }
    disk.jpeg("JPEGImages_24fps/v/00002.jpg", (640, 480));
    cut("JPEGImages_24fps/v/00002.jpg", &[0xFF, 0xDA], 12, &[0xFF, 0xD9]);
    let clip = split.clip("v").unwrap();
    assert_eq!(prompt_fault(&disk).0, "mask_size");
    let object = &clip.objects[0];
    assert_eq!(object.mask_of_size(4, 32, 16).unwrap_err().code(), "mask_size");
    // Scored is a mask of up to four times the frame's sides, and no larger one.
    let error = object.mask(4, (32, 16)).unwrap_err();
    assert_eq!(error.code(), "mask_size");
    assert!(error.to_string().contains("400x400"), "{error}");
    assert_eq!(object.mask(8, (32, 16)).unwrap_err().code(), "unreadable_mask");
    assert_eq!(clip.frame(2, (32, 16)).unwrap_err().code(), "frame_size_change");
}

#[test]
fn bad_prompt_masks_cost_only_their_object() {
    let name = "Annotations_6fps/v/000/00000.png";
    let disk = Disk::new();
    disk.sav_video("v", 5);
    disk.mask(name, (32, 16), 0);
    let (code, message) = prompt_fault(&disk);
    assert_eq!(code, "empty_prompt_mask");
    assert!(message.contains("[obj 000] empty mask at 0, skipping object"), "{message}");
    disk.mask(name, (16, 16), 255);
    let (code, message) = prompt_fault(&disk);
    assert_eq!(code, "mask_size");
    assert!(message.contains("16x16") && message.contains("32x16"), "{message}");
    disk.write(name, b"\x89PNG\r\n\x1a\nnothing more");
    let (code, message) = prompt_fault(&disk);
    assert_eq!(code, "unreadable_prompt_mask");
    assert!(message.contains("[obj 000] unusable mask for prompt frame 0, skipping"), "{message}");
    assert!(message.contains("00000.png"), "{message}");
    std::fs::remove_file(disk.path(name)).unwrap();
    std::fs::remove_file(disk.path("Annotations_6fps/v/000/00004.png")).unwrap();
    disk.mask("Annotations_6fps/v/000/00008.png", (32, 16), 255);
    let (code, message) = prompt_fault(&disk);
    assert_eq!(code, "prompt_out_of_range");
    assert!(message.contains("Prompt index 8 is out of range for 5 frames"), "{message}");
}

#[test]
fn a_mask_that_vanishes_after_listing_is_missing() {
    let disk = Disk::new();
    disk.sav_video("v", 5);
    let clip = SavSplit::open(disk.root(), "sav_val").unwrap().clip("v").unwrap();
    std::fs::remove_file(disk.path("Annotations_6fps/v/000/00004.png")).unwrap();
    let object = &clip.objects[0];
    assert_eq!(object.mask(4, (32, 16)).unwrap_err().code(), "missing_mask");
    assert_eq!(object.mask(3, (32, 16)).unwrap_err().code(), "not_annotated");
    assert_eq!(object.mask_of_size(0, 9, 9).unwrap_err().code(), "mask_size");
}

//! The content of reports on small tables: groups, comparisons, notes, targets, hints.

use std::path::Path;

use super::*;
use crate::data::PlaceKind;
use crate::input::{Validity, read};
use crate::targets::State;

const HEAD: &str = "video,object,model,imgsz,precision,frames,fps,gpu_peak_alloc_MiB,JandF,status,reason,device,mode,latency_p50_ms,throttle,verdict,verdict_reason\n";

fn report_of(tables: &[(&str, String)], targets: Option<&Targets>) -> Report {
    let dir = tempfile::tempdir().unwrap();
    let given: Vec<String> = tables
        .iter()
        .map(|(name, rows)| {
            let path = dir.path().join(format!("{name}.csv"));
            std::fs::write(&path, rows).unwrap();
            path.display().to_string()
        })
        .collect();
    build(read(&given, &[]).unwrap(), targets, "then".into())
}

fn row(video: &str, model: &str, fps: f64, verdict: &str) -> String {
    format!(
        "{video},000,{model},1024,fp16,50,{fps},170.0,0.5,ok,,NVIDIA \
         H200,latency,{},none,{verdict},\n",
        1000.0 / fps
    )
}

#[test]
fn invalid_rows_have_no_part_in_speed_and_their_part_in_quality() {
    let invalid = row("b", "m", 900.0, "INVALID").replace("0.5,ok", "0.9,ok");
    let report =
        report_of(&[("x", [HEAD, &row("a", "m", 100.0, "VALID"), &invalid].concat())], None);
    let group = &report.groups[0];
    assert_eq!((group.mean("fps"), group.mean("JandF")), (Some(100.0), Some(0.7)));
    assert_eq!(
        (group.counts.measured, group.counts.valid, group.counts.invalid, group.invalid),
        (2, 1, 1, false)
    );
    assert_eq!((group.reasons[0].state, group.reasons[0].rows), (Validity::Invalid, 1));
    assert!(report.notes[0].contains("1 of 2 rows are INVALID"), "{:?}", report.notes);
}

#[test]
fn a_group_of_invalid_rows_alone_is_shown_and_is_never_the_best() {
    let rows = [
        HEAD,
        &row("a", "fast", 900.0, "INVALID"),
        &row("a", "slow", 10.0, "VALID"),
        &row("a", "mid", 20.0, "-"),
    ]
    .concat();
    let report = report_of(&[("x", rows)], None);
    assert_eq!((report.groups[0].invalid, report.groups[0].mean("fps")), (true, Some(900.0)));
    let fastest = report.best.iter().find(|best| best.column == "fps").unwrap();
    assert_eq!((report.groups[fastest.group].model.as_str(), fastest.among), ("mid", 2));
    let alone = report_of(&[("x", [HEAD, &row("a", "m", 1.0, "VALID")].concat())], None);
    assert!(alone.best.is_empty(), "a best of one is no best");
}

#[test]
fn failed_rows_have_no_numbers_even_where_fields_are_filled() {
    let failed = row("b", "m", 99999.0, "-").replace("ok,,", "failed,oom: it broke,");
    let report =
        report_of(&[("x", [HEAD, &row("a", "m", 100.0, "VALID"), &failed].concat())], None);
    let group = &report.groups[0];
    assert_eq!((group.mean("fps"), group.counts.measured, group.counts.rows), (Some(100.0), 1, 2));
    assert_eq!(group.reasons[0].text, "oom: it broke");
}

#[test]
fn a_row_for_each_pass_makes_no_more_objects() {
    let head = HEAD.replace("video,object,model,", "video,object,model,run,");
    let pass = |video: &str, run: &str, status: &str| {
        row(video, "m", 100.0, "VALID")
            .replace(",m,", &format!(",m,{run},"))
            .replace(",ok,", &format!(",{status},"))
    };
    let rows = [head, pass("a", "0", "ok"), pass("a", "1", "ok"), pass("b", "0", "failed")];
    let report = report_of(&[("x", rows.concat())], None);
    let counts = report.groups[0].counts;
    assert_eq!((counts.rows, counts.measured), (3, 2));
    assert_eq!((counts.objects, counts.objects_measured), (2, 1));
}

#[test]
fn rows_under_different_conditions_are_different_groups() {
    let rows = [
        HEAD,
        &row("a", "m", 100.0, "VALID"),
        &row("a", "m", 200.0, "VALID").replace("latency,", "throughput,"),
        &row("a", "n", 50.0, "VALID").replace("1024", "512"),
    ]
    .concat();
    let report = report_of(&[("x", rows)], None);
    let names: Vec<&str> = report.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["m · latency", "m · throughput", "n"]);
    let fastest = report.best.iter().find(|best| best.column == "fps").unwrap();
    let caveats = fastest.caveats.join("; ");
    assert!(
        caveats.contains("imgsz (1024, 512)") && caveats.contains("mode (latency, throughput)"),
        "{caveats}"
    );
}

#[test]
fn platforms_stand_side_by_side_with_ratios_of_what_is_believed() {
    let old = "platform,hostname,timestamp,video,object,model,run,imgsz,frames,fps\njetson,orin1,t,a,000,m,0,1024,50,10\njetson,orin2,t,a,000,m,0,1024,50,12\n";
    let merged = report_of(&[("merged", old.to_owned())], None);
    assert_eq!(merged.platforms.platforms, ["jetson (orin1)", "jetson (orin2)"]);
    assert_eq!(merged.platforms.lines[0].cells[1][0].times_first, Some(1.2));
    // The predecessor's rows are next to segtrt's, without a ratio between them.
    let mixed = [HEAD, &row("a", "m", 100.0, "VALID"), &row("a", "n", 50.0, "VALID")].concat();
    let mixed = report_of(&[("merged", old.to_owned()), ("own", mixed)], None);
    let ratios = mixed
        .platforms
        .lines
        .iter()
        .map(|line| line.cells[2].iter().any(|c| c.times_first.is_some()));
    assert_eq!(ratios.collect::<Vec<_>>(), [false; 3]);
    assert_eq!(mixed.platforms.lines[0].name, "m · 1024 px · Python predecessor");
    assert_eq!(mixed.best.iter().find(|best| best.column == "fps").unwrap().among, 2);
    let sides = report_of(
        &[
            ("board", [HEAD, &row("a", "m", 10.0, "INVALID")].concat()),
            ("card", [HEAD, &row("a", "m", 100.0, "VALID")].concat()),
            ("server", [HEAD, &row("b", "m", 200.0, "VALID")].concat()),
        ],
        None,
    );
    let times = |report: &Report| {
        let cells = report.platforms.lines[0].cells.iter();
        cells.map(|cell| cell[0].times_first).collect::<Vec<_>>()
    };
    assert_eq!(times(&sides), [None; 3], "the server had another clip");
    assert!(!sides.platforms.lines[0].same_objects);
    assert_eq!(sides.platforms.kind, PlaceKind::Run, "a file's name is no platform");
    let same = report_of(
        &[
            ("board", [HEAD, &row("a", "m", 10.0, "INVALID")].concat()),
            ("card", [HEAD, &row("a", "m", 100.0, "VALID")].concat()),
            ("server", [HEAD, &row("a", "m", 200.0, "VALID")].concat()),
        ],
        None,
    );
    assert_eq!(times(&same), [None, Some(1.0), Some(2.0)]);
    assert!(
        sides.notes.iter().any(|note| note.contains("the clips and objects")),
        "{:?}",
        sides.notes
    );
}

#[test]
fn targets_pass_fail_or_were_not_measured_and_never_by_invalid_rows() {
    let targets = Targets::open(Path::new("default")).unwrap();
    let rows = [
        HEAD,
        &row("a", "fast", 100.0, "VALID"),
        &row("a", "slow", 20.0, "VALID"),
        &row("a", "hot", 900.0, "INVALID"),
    ]
    .concat();
    let report = report_of(&[("x", rows)], Some(&targets));
    let verdicts = report.targets.as_ref().unwrap();
    let state = |model: &str, name: &str| {
        let found = verdicts
            .results
            .iter()
            .find(|r| report.groups[r.group].model == model && r.name == name);
        found.unwrap().state
    };
    assert_eq!(
        (state("fast", "Throughput"), state("slow", "Throughput")),
        (State::Pass, State::Fail)
    );
    assert_eq!(
        (state("hot", "Throughput"), state("fast", "Latency P99")),
        (State::Invalid, State::NotMeasured)
    );
    assert_eq!(state("fast", "GPU memory"), State::Pass);
    let failure = verdicts.failure().unwrap();
    assert!(
        failure.contains("2 missed")
            && failure.contains(
                "with only INVALID \
        rows"
            ),
        "{failure}"
    );
}

#[test]
fn a_check_of_nothing_fails() {
    let targets = Targets::open(Path::new("default")).unwrap();
    let report = report_of(
        &[("x", "video,object,model,fps,status\nv,0,m,,failed\n".to_owned())],
        Some(&targets),
    );
    assert!(report.targets.unwrap().failure().unwrap().contains("none was measured"));
}

#[test]
fn hints_come_with_their_numbers() {
    let held = row("a", "m", 100.0, "INVALID").replace(",none,", ",power_cap+clocks_setting,");
    let report = report_of(&[("x", [HEAD, &held, &row("b", "m", 100.0, "VALID")].concat())], None);
    let throttled: Vec<&Hint> =
        report.hints.iter().filter(|hint| hint.code == "throttled").collect();
    assert_eq!(throttled.len(), 1);
    assert_eq!(throttled[0].evidence, "power_cap in 1 rows of 2", "a setting is no throttling");
}

#[test]
fn rows_that_the_board_sustains_at_its_power_limit_are_not_called_throttled() {
    let capped = |video: &str, verdict: &str, reason: &str| {
        let row = row(video, "m", 100.0, verdict).replace(",none,", ",power_cap,");
        row.replace(&format!("{verdict},"), &format!("{verdict},{reason}"))
    };
    let sustained = capped("a", "VALID", "power_limited: over 12 s; outliers: 1 of 200");
    // A row with a pass of each kind is not sustained.
    let both = capped("b", "INVALID", "throttled: held down; power_limited: in another pass");
    let report = report_of(&[("x", [HEAD, &sustained, &both].concat())], None);
    let told = |hint: &Hint| format!("{}: {}", hint.code, hint.evidence);
    let hints: Vec<String> = report.hints.iter().map(told).collect();
    let bound = "power-bound: sustained at the limit in 1 rows of 2";
    assert_eq!(hints, ["throttled: power_cap in 1 rows of 2", bound]);
}

#[test]
fn host_and_decoding_are_blamed_where_the_numbers_say_so() {
    let head = "video,object,model,frames,fps,status,verdict,mode,gpu_ms,encoder_ms,upload_ms,download_ms,decode_ms\n";
    let rows = format!("{head}a,0,m,50,100,ok,VALID,latency,6.0,5.0,2.0,0.5,12.0\n");
    let report = report_of(&[("x", rows)], None);
    let codes: Vec<&str> = report.hints.iter().map(|hint| hint.code).collect();
    assert_eq!(codes, ["host-bound", "transfer-bound", "decode-bound"]);
    assert!(
        report.hints[0].evidence.contains("40 % of a frame's 10.00 ms"),
        "{}",
        report.hints[0].evidence
    );
    assert!(report.hints[1].evidence.contains("25 %"), "{}", report.hints[1].evidence);
}

#[test]
fn stages_have_the_percentiles_of_their_rows() {
    let head = "video,object,model,frames,fps,status,verdict,mode,encoder_ms,prompt_ms,encoder_p50_ms,encoder_p99_ms\n";
    let rows = "a,0,m,50,100,ok,VALID,latency,5.0,2.0,4.5,9.0\n\
                b,0,m,50,100,ok,VALID,latency,5.0,2.0,5.5,\n\
                c,0,m,50,100,ok,INVALID,latency,5.0,2.0,99.0,99.0\n";
    let report = report_of(&[("x", format!("{head}{rows}"))], None);
    let stages = report.groups[0].stages.as_ref().unwrap();
    let of = |column: &str| {
        let line = stages.lines.iter().find(|line| line.column == column).unwrap();
        (line.p50_ms, line.p99_ms)
    };
    assert_eq!(of("encoder_ms"), (Some(5.0), Some(9.0)), "rows without one do not count as zero");
    assert_eq!(of("prompt_ms"), (None, None));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["groups"][0]["stages"]["lines"][3]["p99_ms"], 9.0);
}

#[test]
fn json_has_numbers_as_numbers_names_as_names_and_nothing_for_nothing() {
    let report = report_of(&[("x", [HEAD, &row("007", "m", 100.0, "VALID")].concat())], None);
    let json = serde_json::to_value(&report).unwrap();
    let row = &json["rows"][0];
    assert_eq!(
        (row["video"].as_str(), row["fps"].as_f64(), row["reason"].is_null()),
        (Some("007"), Some(100.0), true)
    );
    assert_eq!(json["groups"][0]["stats"]["fps"]["n"], 1);
    assert!(json["groups"][0]["stats"].get("imgsz").is_none(), "a setting is no measurement");
}

#[test]
fn targets_take_neither_an_interval_for_a_frames_time_nor_a_profile_of_who_knows_whom() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("targets.toml");
    let target = |metric: &str| {
        format!("[[target]]\nname = \"{metric}\"\nmetric = \"{metric}\"\nabove = 0\n")
    };
    let metrics = ["frame_ms", "end_to_end_ms", "inference_ms", "bandwidth_percent"];
    std::fs::write(&file, metrics.map(target).concat()).unwrap();
    let targets = Targets::open(&file).unwrap();
    let head = "video,object,model,frames,fps,status,verdict,mode,encoder_ms,decode_ms\n";
    let row = |mode: &str| format!("a,0,m,50,100,ok,VALID,{mode},5.0,12.0\n");
    let measured = |rows: &str, profiles: &[NsysReport]| {
        let report = report_of(&[("x", format!("{head}{rows}"))], None);
        let verdicts = targets::judge(&targets, &report.groups, profiles);
        verdicts.results.iter().map(|r| r.state == State::Pass).collect::<Vec<_>>()
    };
    let sound = NsysReport { bandwidth_percent: Some(50.0), ..NsysReport::default() };
    let faulty = NsysReport { faults: vec!["it died".into()], ..sound.clone() };
    assert_eq!(measured(&row("latency"), std::slice::from_ref(&sound)), [true; 4]);
    assert_eq!(measured(&row("throughput"), &[faulty]), [false, false, true, false]);
    let both = [row("latency"), row("throughput")].concat();
    assert!(!measured(&both, &[sound])[3], "whose profile is it?");
}

#[test]
fn frames_out_of_a_file_are_no_transfers_and_silent_sensors_saw_nothing() {
    let head = "video,object,model,frames,fps,status,verdict,mode,upload_ms,encoder_ms,input_H,input_W,fidelity,throttle\n";
    let report = |fidelity: &str, throttle: &str| {
        let row = format!("a,0,m,50,100,ok,VALID,latency,4.0,5.0,480,854,{fidelity},{throttle}\n");
        report_of(&[("x", format!("{head}{row}"))], None)
    };
    let (read, mapped) =
        (report("pil13-bicubic", "none"), report("pil13-bicubic-predecoded-u8", ""));
    let of = |report: &Report| {
        let group = &report.groups[0];
        (group.bandwidth.upload_gb_per_s.is_some(), report.hints.len(), group.throttle_rows)
    };
    assert_eq!((of(&read), of(&mapped)), ((true, 1, 1), (false, 0, 0)));
}

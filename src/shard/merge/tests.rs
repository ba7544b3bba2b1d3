use super::*;
use vos::files::{JOURNAL, ObjectResult, RowOrder, summary_csv};
use vos::record::{
    Conditions, ObjectKey, ProfiledStages, Recording, RunRecord, StageTimes, Status,
};
use vos::stage::Stage;

/// A run in two shards of the clips a, b, c; the first has b alone.
struct Run(tempfile::TempDir);

impl Run {
    fn folder(&self, shard: Shard) -> PathBuf {
        self.0.path().join(shard.folder())
    }

    /// Measures, or measures again, a shard; `changed` are settings that are not those of the
    /// other.
    fn measure(&self, part: usize, reason: &str, changed: &[(&str, Value)]) {
        let shard = Shard { part, of: 2 };
        let videos: &[&str] = if part == 1 { &["b"] } else { &["a", "c"] };
        let mut configuration = Configuration::default()
            .with("threads", 2)
            .with("metrics", "predecessor")
            .with("videos", videos)
            .with("shard", json!({"part": part, "of": 2, "selection": ["a", "b", "c"]}));
        for (name, value) in changed {
            configuration = configuration.with(name, value.clone());
        }
        let folder = self.folder(shard);
        let mut store = ResultStore::create(&folder, configuration).unwrap();
        for (at, video) in videos.iter().enumerate() {
            let key = ObjectKey { video: (*video).into(), object: "0".into(), tag: "m".into() };
            let order = RowOrder { video: at, object: 0, model: 0 };
            let row =
                RunRecord::unmeasured(key, Conditions::default(), Status::Failed, "x", reason);
            store.push(ObjectResult::unmeasured(order, row)).unwrap();
        }
        let mut facts = Sidecar { timed_region: "all of it".into(), ..Sidecar::default() };
        facts.environment.insert("hostname".into(), format!("node{part}").into());
        facts.environment.insert("kernel".into(), "6.1".into());
        store.finish(&facts).unwrap();
        std::fs::create_dir_all(folder.join("masks")).unwrap();
        std::fs::write(folder.join("masks").join(videos[0]), reason).unwrap();
        std::fs::write(folder.join(super::super::devices::LOG), "said").unwrap();
    }

    fn merge(&self) -> Result<Option<Merged>> {
        merge(2, &|shard| self.folder(shard), &self.out())
    }

    fn out(&self) -> PathBuf {
        self.0.path().join("out")
    }

    fn rows(&self) -> Vec<(String, String)> {
        let mut reader = csv::Reader::from_path(self.out().join(summary_csv::FILE_NAME)).unwrap();
        let reason = reader.headers().unwrap().iter().position(|name| name == "reason").unwrap();
        let row = |row: csv::StringRecord| (row[0].to_owned(), row[reason].to_owned());
        reader.records().map(|record| row(record.unwrap())).collect()
    }

    fn sidecar(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.out().join(SIDECAR)).unwrap()).unwrap()
    }
}

fn pairs(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter().map(|(video, why)| ((*video).to_owned(), format!("x: {why}"))).collect()
}

#[test]
fn rows_go_to_their_places_and_what_is_measured_again_replaces_them() {
    let run = Run(tempfile::tempdir().unwrap());
    assert_eq!(run.merge().unwrap(), None);
    assert!(!run.out().exists());
    run.measure(2, "first", &[]);
    let merged = run.merge().unwrap().unwrap();
    assert_eq!((merged.rows, merged.missing), (2, vec![1]));
    run.measure(1, "first", &[]);
    assert_eq!(run.merge().unwrap().unwrap(), Merged { rows: 3, ..Merged::default() });
    assert_eq!(run.rows(), pairs(&[("a", "first"), ("b", "first"), ("c", "first")]));
    let sidecar = run.sidecar();
    assert_eq!(sidecar["configuration"]["videos"], json!(["a", "b", "c"]));
    assert_eq!(sidecar["environment"]["kernel"], "6.1");
    assert_eq!(sidecar["environment"]["hostname"], Value::Null, "it would be of one shard");
    assert_eq!(sidecar["environment"]["shards"][1]["environment"]["hostname"], "node2");
    assert!(!run.out().join(super::super::devices::LOG).exists());

    // A profiler's report of a row stays as long as the row.
    let configuration = JournalReader::open(&run.out()).unwrap().configuration;
    let mut store = ResultStore::resume(&run.out(), configuration).unwrap();
    let stages = Some(ProfiledStages::of_events(&StageTimes::of([(Stage::Encoder, 1.0)])));
    let recording = Recording { report: "r.nsys-rep".into(), stages };
    store.set_reports(|_| Some(recording.clone())).unwrap();
    drop(store);
    run.measure(1, "second", &[]);
    run.merge().unwrap();
    assert_eq!(run.rows(), pairs(&[("a", "first"), ("b", "second"), ("c", "first")]));
    let masks = run.out().join("masks");
    assert_eq!(std::fs::read_to_string(masks.join("b")).unwrap(), "second");
    assert_eq!(std::fs::read_to_string(masks.join("a")).unwrap(), "first");
    let table = std::fs::read_to_string(run.out().join("profile_summary.csv")).unwrap();
    let named: Vec<bool> = table.lines().skip(1).map(|row| row.contains("r.nsys-rep")).collect();
    assert_eq!(named, [true, false, true]);
    let timed: Vec<bool> =
        table.lines().skip(1).map(|row| row.split(',').any(|cell| cell == "1.0")).collect();
    assert_eq!(timed, [true, false, true], "{table}");
}

#[test]
fn masks_of_a_shards_earlier_run_are_not_merged() {
    let run = Run(tempfile::tempdir().unwrap());
    run.measure(2, "first", &[]);
    run.measure(1, "first", &[]);
    let shard = run.folder(Shard { part: 1, of: 2 });
    std::fs::write(shard.join("masks/b__obj9__m.json"), "old").unwrap();
    run.measure(1, "second", &[]);
    assert!(shard.join("masks.previous/b__obj9__m.json").exists());
    run.merge().unwrap();
    assert!(!run.out().join("masks/b__obj9__m.json").exists());
    assert!(!run.out().join("masks.previous").exists());
    assert_eq!(std::fs::read_to_string(run.out().join("masks/b")).unwrap(), "second");
}

#[test]
fn shards_of_two_runs_are_not_one() {
    let run = Run(tempfile::tempdir().unwrap());
    run.measure(1, "r", &[]);
    let other = json!({"part": 2, "of": 2, "selection": ["a", "c"]});
    for (changed, why) in [
        (("metrics", json!("davis")), "metrics was \"predecessor\" and is \"davis\""),
        (("shard", other), "cut from other clips"),
        (("shard", json!({"part": 1, "of": 2, "selection": []})), "is not of shard 2/2"),
        (("videos", json!(["a", "b"])), "\"b\" is in the shards 1/2 and 2/2"),
        (("videos", json!(["a"])), "\"c\" is in no shard"),
    ] {
        run.measure(2, "r", &[changed]);
        let error = format!("{:#}", run.merge().unwrap_err());
        assert!(error.contains(why), "{error}");
    }
    // Hosts may have other numbers of processors; a note says so.
    run.measure(2, "r", &[("threads", json!(8))]);
    assert_eq!(run.merge().unwrap().unwrap().differing, ["threads"]);
    assert_eq!(run.sidecar()["configuration"]["threads"], json!({"1/2": 2, "2/2": 8}));
}

#[test]
fn a_damaged_shard_costs_its_own_rows_and_is_named() {
    let run = Run(tempfile::tempdir().unwrap());
    run.measure(1, "r", &[]);
    run.measure(2, "r", &[]);
    let second = run.folder(Shard { part: 2, of: 2 });
    let journal = second.join(JOURNAL);
    let whole = std::fs::read_to_string(&journal).unwrap();
    std::fs::write(&journal, whole.replacen("\"summary\"", "\"sum", 1)).unwrap();
    let merged = run.merge().unwrap().unwrap();
    assert_eq!((merged.rows, merged.missing.len()), (1, 0));
    let [(2, why)] = merged.damaged.as_slice() else { panic!("{:?}", merged.damaged) };
    assert!(why.contains(&format!("{}: line 2 is damaged", journal.display())), "{why}");
    assert_eq!(run.rows(), pairs(&[("b", "r")]));

    std::fs::write(&journal, whole).unwrap();
    assert_eq!(run.merge().unwrap().unwrap(), Merged { rows: 3, ..Merged::default() });
    // What was merged before stays; alone there is nothing to merge, and the damage is told all the
    // same.
    std::fs::write(second.join(SIDECAR), "{").unwrap();
    let merged = run.merge().unwrap().unwrap();
    assert_eq!((merged.rows, merged.damaged.len()), (3, 1));
    assert!(merged.damaged[0].1.contains("sidecar.json is damaged"), "{:?}", merged.damaged);
    std::fs::remove_dir_all(run.folder(Shard { part: 1, of: 2 })).unwrap();
    let merged = run.merge().unwrap().unwrap();
    assert_eq!((merged.rows, merged.missing, merged.damaged.len()), (0, vec![1], 1));
}

#[test]
fn a_damaged_merged_journal_is_set_aside_and_that_is_told() {
    let run = Run(tempfile::tempdir().unwrap());
    run.measure(1, "r", &[]);
    run.measure(2, "r", &[]);
    run.merge().unwrap();
    let journal = run.out().join(JOURNAL);
    let damaged = std::fs::read_to_string(&journal).unwrap().replacen("\"summary\"", "\"sum", 1);
    std::fs::write(&journal, &damaged).unwrap();
    let merged = run.merge().unwrap().unwrap();
    let (why, place) = merged.set_aside.unwrap();
    assert!(why.contains(&format!("{}: line 2 is damaged", journal.display())), "{why}");
    assert_eq!(std::fs::read_to_string(place).unwrap(), damaged);
    assert_eq!((merged.rows, run.rows().len()), (3, 3));
    // Of other settings, as when a shard of another host joins: that is no damage.
    run.measure(2, "r", &[("threads", json!(8))]);
    assert_eq!(run.merge().unwrap().unwrap().set_aside, None);
}

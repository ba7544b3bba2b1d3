/*!
The tables inside the shim are those of `abi/releases.tsv`, and the generated header is up to date.
*/

use std::collections::HashMap;
use std::process::Command;

use tensorrt::{Family, Version, tables};

/// A row for each method or enumerator and the releases that have it alike.
pub const DECLARATIONS: &str = include_str!("../abi/releases.tsv");

/// One row, of one release.
#[derive(Clone, Copy)]
pub struct Row {
    /// `method` or `enum`.
    pub kind: &'static str,
    pub release: &'static str,
    pub key: &'static str,
    /// C++ name of the interface or enumeration.
    pub owner: &'static str,
    /// Slot or value.
    pub number: i32,
    /// As NVIDIA's header declares it.
    pub declaration: &'static str,
}

pub fn rows() -> impl Iterator<Item = Row> {
    DECLARATIONS.lines().filter(|line| !line.starts_with('#')).flat_map(|line| {
        let mut fields = line.split('\t');
        let mut next = || fields.next().unwrap();
        let (kind, releases, key, owner) = (next(), next(), next(), next());
        let (number, declaration) = (next().parse().unwrap(), next());
        let of = move |release| Row { kind, release, key, owner, number, declaration };
        releases.split(' ').map(of)
    })
}

/// `10.13.3`, `rtx-1.7` → layout and minor release.
pub fn family_of(release: &str) -> (Family, i32) {
    let rtx = release.starts_with("rtx-");
    let mut numbers =
        release.trim_start_matches("rtx-").split('.').map(|n| n.parse::<i32>().unwrap());
    let (major, minor) = (numbers.next().unwrap(), numbers.next().unwrap());
    let version = Version { rtx, major, minor, patch: 0 };
    (version.family().unwrap(), minor)
}

#[test]
fn every_slot_and_value_of_every_release_is_in_the_shim() {
    let mut known: HashMap<&str, HashMap<String, Option<i32>>> = HashMap::new();
    let mut compared = 0;
    for row in rows() {
        let of_release = known.entry(row.release).or_insert_with(|| {
            let (family, minor) = family_of(row.release);
            tables::methods(family, minor)
                .into_iter()
                .chain(tables::values(family, minor))
                .collect()
        });
        assert_eq!(of_release[row.key], Some(row.number), "{} in {}", row.key, row.release);
        compared += 1;
    }
    assert_eq!(known.len(), 16, "releases");
    assert!(compared > 2000, "{compared}");
}

#[test]
fn what_a_release_lacks_is_absent_in_the_shim() {
    let mut held: HashMap<&str, Vec<&str>> = HashMap::new();
    for row in rows() {
        held.entry(row.release).or_default().push(row.key);
    }
    for (release, keys) in held {
        // The parser's interface was not read for every release: its neighbours' is used there.
        let parser_read = keys.contains(&"Parser_parseFromFile");
        let (family, minor) = family_of(release);
        for (key, number) in
            tables::methods(family, minor).into_iter().chain(tables::values(family, minor))
        {
            let unread = !parser_read && key.starts_with("Parser");
            assert!(
                unread || number.is_none() || keys.contains(&key.as_str()),
                "{key} in {release}"
            );
        }
    }
}

#[test]
fn releases_between_the_listed_ones_have_what_the_older_one_has() {
    let slot = |minor: i32, key: &str| {
        tables::methods(Family::Trt10, minor).into_iter().find(|(name, _)| name == key).unwrap().1
    };
    assert_eq!(slot(0, "CudaEngine_getDeviceMemorySizeV2"), None);
    assert_eq!(slot(2, "CudaEngine_getDeviceMemorySizeV2"), Some(52));
    assert_eq!(slot(40, "CudaEngine_getDeviceMemorySizeV2"), Some(52));
}

#[test]
fn the_generated_tables_are_fresh() {
    const SCRIPT: &str = "abi/generate.py";
    const HEADER: &str = "src/shim/abi_generated.hpp";
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("abi.hpp");
    let Ok(run) = Command::new("python3").args([SCRIPT, "--out"]).arg(&out).output() else {
        eprintln!("SKIPPED: no python3 to run {SCRIPT}");
        return;
    };
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let same = std::fs::read(out).unwrap() == std::fs::read(HEADER).unwrap();
    assert!(same, "{HEADER} is stale: run {SCRIPT}");
}

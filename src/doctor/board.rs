/*!
A Jetson's power mode and clocks. A board in a low power mode gives low numbers.
*/

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Map, Value};

use super::check::Check;
use host::timed_command;
use vos::telemetry::{SensorSource, Tegra};

/// Clocks that differ by less than this, MHz, are one clock.
const SAME_CLOCK: f64 = 1.0;

/// Why a board with JetPack 5, and its TensorRT 8.5, are of no use, and what is.
pub const JETPACK_5: &str = "JetPack 5 is not supported: its TensorRT 8.5 cannot parse \
                             LayerNormalization, which the exported graphs use";
pub const JETPACK_6: &str = "install JetPack 6, or TensorRT 8.6 or newer";

/// The lines of a Jetson; none on other machines.
pub fn jetson(root: &Path) -> Vec<Check> {
    let Some(board) = Tegra::open(root) else { return Vec::new() };
    let facts = board.facts();
    let mode = || {
        let printed =
            timed_command::run(Command::new("nvpmodel").arg("-q"), Duration::from_secs(10)).ok()?;
        mode_of(&printed.out)
    };
    vec![about(&facts), power_mode(mode().or_else(|| text(&facts, "power_mode"))), clocks(&facts)]
}

fn text(facts: &Map<String, Value>, name: &str) -> Option<String> {
    facts.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn about(facts: &Map<String, Value>) -> Check {
    let or = |name: &str, other: &str| text(facts, name).unwrap_or_else(|| other.to_owned());
    let l4t = or("l4t", "no nv_tegra_release");
    let found = format!("{}, {l4t}", or("board", "a Jetson"));
    // Linux for Tegra of JetPack 5.
    if ["# R34 ", "# R35 "].iter().any(|release| l4t.starts_with(release)) {
        return Check::warning("Jetson", format!("{found}; {JETPACK_5}"), JETPACK_6);
    }
    Check::ok("Jetson", found)
}

/// "MAXN" of "NV Power Mode: MAXN\n0".
fn mode_of(printed: &str) -> Option<String> {
    let line = printed.lines().find_map(|line| line.trim().strip_prefix("NV Power Mode:"))?;
    Some(line.trim().to_owned())
}

fn power_mode(mode: Option<String>) -> Check {
    let name = "power mode";
    let advice = "sudo nvpmodel -q --verbose lists the modes; sudo nvpmodel -m 0 is MAXN on most \
                  boards; then run the doctor again";
    match mode {
        // Its status file has the mode's number only: 0000 is the first of the board's table.
        Some(mode) if mode.contains("MAXN") || mode == "pmode:0000" => Check::ok(name, mode),
        Some(mode) => {
            Check::warning(name, format!("{mode}, not MAXN: the board holds itself back"), advice)
        }
        None => Check::warning(
            name,
            "unknown: neither nvpmodel -q nor its status file can be read",
            advice,
        ),
    }
}

fn clocks(facts: &Map<String, Value>) -> Check {
    let name = "GPU clock";
    let clock = |name: &str| facts.get(name).and_then(Value::as_f64);
    let governor = text(facts, "gpu_governor").unwrap_or_else(|| "unknown governor".to_owned());
    match (clock("gpu_clock_min_mhz"), clock("gpu_clock_max_mhz")) {
        (Some(low), Some(high)) if high - low < SAME_CLOCK => {
            Check::ok(name, format!("held at {high:.0} MHz"))
        }
        (Some(low), Some(high)) => Check::warning(
            name,
            format!(
                "{low:.0} to {high:.0} MHz, chosen by {governor}: it follows the load, and times with it"
            ),
            "sudo jetson_clocks holds it at its maximum until the next boot",
        ),
        _ => {
            Check::warning(name, "unknown", "run as root, or check with: sudo jetson_clocks --show")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    fn board(min: &str, max: &str, mode: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let gpu = "sys/class/devfreq/17000000.gpu";
        for (path, text) in [
            (format!("{gpu}/cur_freq"), "306000000"),
            (format!("{gpu}/min_freq"), min),
            (format!("{gpu}/max_freq"), max),
            (format!("{gpu}/governor"), "nvhost_podgov"),
            ("proc/device-tree/model".to_owned(), "NVIDIA Jetson AGX Orin\0"),
            ("etc/nv_tegra_release".to_owned(), "# R36 (release), REVISION: 4.3\nmore"),
            ("var/lib/nvpmodel/status".to_owned(), mode),
        ] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn a_board_at_full_power_is_well_and_one_that_saves_is_told_how() {
        let checks = jetson(board("1300500000", "1300500000", "pmode:0000").path());
        assert!(checks.iter().all(|check| check.state == State::Ok), "{checks:?}");
        assert!(checks[0].found.contains("Orin, # R36 (release)"), "{checks:?}");
        assert_eq!(checks[2].found, "held at 1300 MHz");
        let saving = jetson(board("306000000", "1300500000", "pmode:0002").path());
        assert_eq!(saving[1].state, State::Warning);
        assert!(saving[1].advice.as_ref().unwrap().contains("nvpmodel -m 0"), "{saving:?}");
        assert!(
            saving[2].found.starts_with("306 to 1300 MHz, chosen by nvhost_podgov"),
            "{saving:?}"
        );
        assert!(saving[2].advice.as_ref().unwrap().contains("jetson_clocks"));
    }

    #[test]
    fn a_board_with_jetpack_5_is_told_that_it_is_not_supported() {
        let dir = board("1300500000", "1300500000", "pmode:0000");
        let release = dir.path().join("etc/nv_tegra_release");
        std::fs::write(release, "# R35 (release), REVISION: 4.1\n").unwrap();
        let first = &jetson(dir.path())[0];
        assert_eq!(first.state, State::Warning);
        assert!(first.found.ends_with(JETPACK_5), "{first:?}");
        assert_eq!(first.advice.as_deref(), Some(JETPACK_6));
    }

    #[test]
    fn other_machines_have_no_such_lines_and_modes_are_read() {
        assert!(jetson(tempfile::tempdir().unwrap().path()).is_empty());
        assert_eq!(mode_of("NV Power Mode: MODE_30W\n2\n").as_deref(), Some("MODE_30W"));
        assert_eq!(mode_of("nothing"), None);
        assert_eq!(power_mode(Some("MAXN_SUPER".into())).state, State::Ok);
        assert_eq!(power_mode(None).state, State::Warning);
    }
}

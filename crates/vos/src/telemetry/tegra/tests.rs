use super::*;

/// A simulated board: files below a folder.
struct Board(tempfile::TempDir);

impl Board {
    fn new(files: &[(&str, &str)]) -> Self {
        let board = Self(tempfile::tempdir().unwrap());
        files.iter().for_each(|(path, text)| board.set(path, text));
        board
    }

    fn set(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn remove(&self, path: &str) {
        std::fs::remove_file(self.0.path().join(path)).unwrap();
    }

    fn tegra(&self) -> Tegra {
        Tegra::open(self.0.path()).expect("a GPU is found")
    }
}

const FREQ: &str = "sys/class/devfreq/17000000.gpu/cur_freq";
const MONITOR: &str = "sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon3";

/// An AGX Orin with JetPack 6: two monitors, no rail for the whole module.
fn orin() -> Board {
    let board = Board::new(&[
        (FREQ, "1300500000\n"),
        ("sys/class/devfreq/17000000.gpu/min_freq", "306000000\n"),
        ("sys/class/devfreq/17000000.gpu/max_freq", "1300500000\n"),
        ("sys/class/devfreq/17000000.gpu/governor", "nvhost_podgov\n"),
        ("sys/class/devfreq/17000000.gpu/device/load", "987\n"),
        ("sys/class/devfreq/15340000.vic/cur_freq", "115200000\n"),
        ("sys/class/thermal/thermal_zone0/type", "cpu-thermal\n"),
        ("sys/class/thermal/thermal_zone0/temp", "71000\n"),
        ("sys/class/thermal/thermal_zone1/type", "gpu-thermal\n"),
        ("sys/class/thermal/thermal_zone1/temp", "63250\n"),
        ("sys/class/thermal/thermal_zone8/type", "tj-thermal\n"),
        ("sys/class/thermal/thermal_zone8/temp", "73000\n"),
        ("sys/class/thermal/cooling_device0/type", "pwm-fan\n"),
        ("sys/class/thermal/cooling_device0/cur_state", "3\n"),
        ("sys/class/thermal/cooling_device5/type", "gpu-throttle-alert\n"),
        ("sys/class/thermal/cooling_device5/cur_state", "0\n"),
        ("sys/class/hwmon/hwmon1/oc1_event_cnt", "12\n"),
        ("sys/class/hwmon/hwmon1/oc3_event_cnt", "0\n"),
        ("proc/device-tree/model", "NVIDIA Jetson AGX Orin Developer Kit\0"),
        ("etc/nv_tegra_release", "# R36 (release), REVISION: 4.3\n# more\n"),
        ("var/lib/nvpmodel/status", "pmode:0000\n"),
    ]);
    let other = "sys/bus/i2c/drivers/ina3221/1-0041/hwmon/hwmon4";
    for (monitor, channel, name, milliamps, millivolts) in [
        (MONITOR, 1, "VDD_GPU_SOC", "2000", "19000"),
        (MONITOR, 2, "VDD_CPU_CV", "500", "19000"),
        (MONITOR, 3, "VIN_SYS_5V0", "1000", "5000"),
        (other, 1, "NC", "999", "999"),
        (other, 2, "VDDQ_VDD2_1V8AO", "100", "5000"),
    ] {
        board.set(&format!("{monitor}/in{channel}_label"), name);
        board.set(&format!("{monitor}/in{channel}_input"), millivolts);
        board.set(&format!("{monitor}/curr{channel}_input"), milliamps);
    }
    // The sum of the shunts has a voltage and no current.
    board.set(&format!("{MONITOR}/in7_label"), "sum of shunt voltages");
    board.set(&format!("{MONITOR}/in7_input"), "40");
    board
}

#[test]
fn an_orin_is_read_whole() {
    let board = orin();
    let mut tegra = board.tegra();
    let reading = tegra.read(true);
    let expected = Reading {
        power_w: Some(38.0 + 9.5 + 5.0 + 0.5),
        sm_clock_mhz: Some(1300.5),
        temperature_c: Some(63.25),
        utilisation_percent: Some(98.7),
        limits: Some(Limits::default()),
        ..Reading::default()
    };
    assert_eq!(reading, expected);
    let facts = tegra.facts();
    assert_eq!(facts["board"], "NVIDIA Jetson AGX Orin Developer Kit");
    assert_eq!(facts["l4t"], "# R36 (release), REVISION: 4.3");
    assert_eq!(facts["power_mode"], "pmode:0000");
    assert_eq!(
        (&facts["gpu_clock_min_mhz"], &facts["gpu_clock_max_mhz"]),
        (&306.0.into(), &1300.5.into())
    );
    assert_eq!(facts["power_is"], "sum of all rails");
    let rails = ["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0", "VDDQ_VDD2_1V8AO"];
    assert_eq!(facts["power_rails"], serde_json::json!(rails));
}

#[test]
fn a_rail_for_the_whole_module_is_the_power_and_the_others_are_parts_of_it() {
    let board = orin();
    board.set(&format!("{MONITOR}/in1_label"), "VDD_IN");
    let mut tegra = board.tegra();
    assert_eq!(tegra.read(false).power_w, Some(38.0));
    assert_eq!(tegra.facts()["power_is"], "rail VDD_IN, the whole module");
}

#[test]
fn heat_and_current_show_as_limits_while_they_last() {
    let board = orin();
    let mut tegra = board.tegra();
    assert_eq!(tegra.read(false).limits.unwrap().text(), "none", "old events are no news");
    board.set("sys/class/hwmon/hwmon1/oc3_event_cnt", "2\n");
    board.set("sys/class/thermal/cooling_device5/cur_state", "1\n");
    assert_eq!(tegra.read(false).limits.unwrap().text(), "thermal+over_current");
    assert_eq!(tegra.read(false).limits.unwrap().text(), "thermal");
    board.set("sys/class/thermal/cooling_device5/cur_state", "0\n");
    assert_eq!(tegra.read(false).limits.unwrap().text(), "none");
}

#[test]
fn files_that_are_gone_or_damaged_cost_their_own_number_only() {
    let board = orin();
    let mut tegra = board.tegra();
    // A powered-off zone cannot be read, and a missing rail invalidates the sum.
    board.set("sys/class/thermal/thermal_zone1/temp", "");
    board.set("sys/class/devfreq/17000000.gpu/device/load", "busy\n");
    board.remove(&format!("{MONITOR}/curr2_input"));
    let reading = tegra.read(false);
    assert_eq!(
        (reading.temperature_c, reading.utilisation_percent, reading.power_w),
        (None, None, None)
    );
    assert_eq!(reading.sm_clock_mhz, Some(1300.5));
}

#[test]
fn an_older_board_with_iio_and_a_chip_name_is_read_too() {
    let monitor = "sys/bus/i2c/drivers/ina3221x/7-0040/iio:device0";
    let board = Board::new(&[
        ("sys/class/devfreq/17000000.gv11b/cur_freq", "1377000000"),
        ("sys/devices/gpu.0/load", "500"),
        ("sys/class/thermal/thermal_zone1/type", "GPU-therm"),
        ("sys/class/thermal/thermal_zone1/temp", "41500"),
        ("sys/kernel/debug/bpmp/debug/clk/emc/rate", "2133000000"),
        (&format!("{monitor}/rail_name_0"), "GPU"),
        (&format!("{monitor}/in_power0_input"), "12500"),
        (&format!("{monitor}/rail_name_1"), "CPU"),
        (&format!("{monitor}/in_power1_input"), "2500"),
    ]);
    let expected = Reading {
        power_w: Some(15.0),
        sm_clock_mhz: Some(1377.0),
        memory_clock_mhz: Some(2133.0),
        temperature_c: Some(41.5),
        utilisation_percent: Some(50.0),
        // This board has no file about throttling.
        limits: None,
        ..Reading::default()
    };
    assert_eq!(board.tegra().read(true), expected);
}

#[test]
fn other_machines_are_no_jetson() {
    assert!(Tegra::open(Board::new(&[]).0.path()).is_none());
    let server = Board::new(&[
        ("sys/class/devfreq/devfreq0/cur_freq", "1"),
        ("sys/class/hwmon/hwmon0/name", "coretemp"),
    ]);
    assert!(Tegra::open(server.0.path()).is_none());
}

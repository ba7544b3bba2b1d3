/*!
Reports by platform: the ranges of all reports of a machine together, and several platforms side by
side.
*/

use super::analysis::Analysis;
use super::range_boxes::tables;
use super::table::Table;

/// The reports of one machine.
#[derive(Clone, Debug)]
pub struct Platform {
    /// The name that the user gave, else the machine's GPU or processor.
    pub name: String,
    /// Labels of its reports.
    pub reports: Vec<String>,
    /// `nvtx_box` and `nvtx_outliers` of all its reports.
    pub tables: Vec<Table>,
}

/// The platforms in the order of their first reports. Machines of one name are told apart by their
/// names in the network. Reports without ranges are left out.
pub fn platforms(reports: &[Analysis]) -> Vec<Platform> {
    let mut groups: Vec<(&Analysis, Vec<&Analysis>)> = Vec::new();
    for report in reports.iter().filter(|report| !report.ranges.is_empty()) {
        match groups.iter_mut().find(|(first, _)| key(first) == key(report)) {
            Some((_, members)) => members.push(report),
            None => groups.push((report, vec![report])),
        }
    }
    let name = |first: &Analysis| {
        let alike = groups.iter().filter(|(other, _)| other.platform == first.platform).count();
        match (first.platform.as_str(), first.host.as_str()) {
            ("", "") => "unknown machine".to_owned(),
            ("", host) => host.to_owned(),
            (platform, host) if alike > 1 && !host.is_empty() => format!("{platform} ({host})"),
            (platform, _) => platform.to_owned(),
        }
    };
    let platform = |(first, members): &(&Analysis, Vec<&Analysis>)| Platform {
        name: name(first),
        reports: members.iter().map(|report| report.label.clone()).collect(),
        tables: tables(
            &members
                .iter()
                .map(|report| (report.label.as_str(), report.ranges.as_slice()))
                .collect::<Vec<_>>(),
        )
        .into(),
    };
    groups.iter().map(platform).collect()
}

fn key(report: &Analysis) -> (&str, &str) {
    (&report.platform, &report.host)
}

/// The boxes of several platforms as reports, for [`super::side_by_side`]; empty for fewer than two.
pub fn as_reports(platforms: &[Platform], like: &Analysis) -> Vec<Analysis> {
    if platforms.len() < 2 {
        return Vec::new();
    }
    let report = |platform: &Platform| Analysis {
        label: platform.name.clone(),
        tables: platform.tables.clone(),
        ..like.clone()
    };
    platforms.iter().map(report).collect()
}

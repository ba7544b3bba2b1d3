/*!
UTC dates of measurements and files, for the tables of a comparison.
*/

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The current time, seconds since 1970.
pub fn now_unix_s() -> u64 {
    unix_s(SystemTime::now())
}

/// The UTC date, such as `2026-11-21`, of a time in seconds since 1970.
pub fn utc_date(unix_s: u64) -> String {
    let moment = i64::try_from(unix_s).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
    moment.map_or_else(|| "unknown".to_owned(), |at| at.strftime("%F").to_string())
}

/// The UTC date of a file's last modification; none if the file system does not report it.
pub fn of_file(path: &Path) -> Option<String> {
    Some(utc_date(unix_s(std::fs::metadata(path).ok()?.modified().ok()?)))
}

fn unix_s(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_dates() {
        assert_eq!(utc_date(0), "1970-01-01");
        assert_eq!(utc_date(1_709_251_199), "2024-02-29");
        assert_eq!(utc_date(u64::MAX), "unknown");
    }
}

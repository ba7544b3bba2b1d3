/*!
The host's processor: its name, and the number of processors for this process.
*/

use std::path::Path;

use crate::board;

/// The kernel's name of the processor, or `unknown processor`.
pub fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    // ARM kernels name the board instead of the processor.
    field(&info, "model name")
        .map(str::to_owned)
        .or_else(|| board::model(Path::new("/")))
        .unwrap_or_else(|| "unknown processor".to_owned())
}

/// Processors that this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The value of the first `name : value` line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t\t: 1\nmodel name\t: Fast Chip\nmodel name\t: Other\n";
        assert_eq!(field(text, "model name"), Some("Fast Chip"));
        assert_eq!(field(text, "name"), None);
    }
}

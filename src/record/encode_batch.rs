/*!
How many frames an encoder took at once, as the end of the backend's name in every row: `… graph encode4`.
*/

const MARK: &str = " encode";

/// What the backend's name ends with; nothing where frames are encoded one by one.
pub fn encode_batch_mark(frames: usize) -> String {
    match frames {
        0 | 1 => String::new(),
        frames => format!("{MARK}{frames}"),
    }
}

/// Frames that the encoder took at once, by the backend's name.
pub fn encode_batch_of(backend: &str) -> usize {
    let told = backend.rsplit_once(MARK).and_then(|(_, frames)| frames.parse().ok());
    told.unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (frames, read) in [(0, 1), (1, 1), (2, 2), (16, 16)] {
            let backend = format!("tensorrt 8.6.0 fp16 fused graph{}", encode_batch_mark(frames));
            assert_eq!(encode_batch_of(&backend), read, "{backend}");
        }
        for other in ["", "onnxruntime 1.30 cpu", "pytorch encoder", "tensorrt encode"] {
            assert_eq!(encode_batch_of(other), 1, "{other}");
        }
    }
}

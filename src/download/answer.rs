/*!
The head of a server's answer, as curl dumps it: one block for each proxy, redirect and the answer
itself.
*/

/// The last block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status, such as 206.
    pub status: u16,
    /// Bytes that follow, where the server says it.
    pub length: Option<u64>,
    /// Offset of the first of them; `None` unless the server sends a part.
    pub start: Option<u64>,
}

impl Answer {
    /// Whether the file or a part of it follows.
    pub fn is_file(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Reads the dumped lines; `None` without an answer.
    pub fn parse(text: &str) -> Option<Self> {
        let mut answer = None::<Self>;
        for line in text.lines().map(str::trim) {
            if line.starts_with("HTTP/") {
                let status = line.split_whitespace().nth(1)?.parse().ok()?;
                answer = Some(Self { status, length: None, start: None });
            }
            let (Some(answer), Some((name, value))) = (&mut answer, line.split_once(':')) else {
                continue;
            };
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => answer.length = value.parse().ok(),
                // bytes 100-199/200
                "content-range" if answer.status == 206 => {
                    let range = value.strip_prefix("bytes").map(str::trim_start);
                    let start = range.and_then(|range| range.split('-').next());
                    answer.start = start.and_then(|start| start.parse().ok());
                }
                _ => {}
            }
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_block_counts() {
        let text = "HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 302 \
                    Found\r\nContent-Length: 5\r\nLocation: x\r\n\r\nHTTP/2 \
                    206 \r\ncontent-length: 100\r\ncontent-range: bytes 100-199/200\r\n\r\n";
        let answer = Answer::parse(text);
        assert_eq!(answer, Some(Answer { status: 206, length: Some(100), start: Some(100) }));
        let whole = Answer::parse("HTTP/1.0 200 OK\r\nServer: x\r\n\r\n");
        assert_eq!(whole, Some(Answer { status: 200, length: None, start: None }));
        assert_eq!(Answer::parse(""), None);
    }
}

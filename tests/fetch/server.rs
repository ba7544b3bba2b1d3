//! A small HTTP server on this machine, with the faults that networks have.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What the server does with one request; the last one holds for all that follow.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The file, or the part that is asked for.
    Ranges(Vec<u8>),
    /// All of the file, whatever is asked for.
    Whole(Vec<u8>),
    /// As `Ranges`, but the connection ends after so many bytes.
    Cut(Vec<u8>, usize),
    /// As `Ranges`, but nothing comes after so many bytes.
    Stall(Vec<u8>, usize),
    /// All of the file, without its length.
    Endless(Vec<u8>),
    /// This status.
    Status(u16),
    /// The address to ask instead.
    Redirect(String),
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its address, as the first line has it.
    pub path: String,
    /// First byte of the range that is asked for.
    pub from: Option<usize>,
}

/// The running server; its thread ends with the process.
pub struct Server {
    /// Such as `http://127.0.0.1:4711`.
    pub url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Starts one that gives these answers in turn.
    pub fn start(answers: &[Answer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (answers, told) = (answers.to_vec(), Arc::clone(&requests));
        thread::spawn(move || {
            for (at, stream) in listener.incoming().flatten().enumerate() {
                let answer = answers[at.min(answers.len() - 1)].clone();
                let told = Arc::clone(&told);
                // A stalled client must not hold up the next one.
                thread::spawn(move || serve(stream, &answer, &told));
            }
        });
        Self { url, requests }
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no thread panicked").clone()
    }

    /// Where each request began.
    pub fn starts(&self) -> Vec<Option<usize>> {
        self.requests().iter().map(|request| request.from).collect()
    }
}

/// Answers one request; a client that is gone is no fault.
fn serve(mut stream: TcpStream, answer: &Answer, told: &Mutex<Vec<Request>>) {
    let Ok(clone) = stream.try_clone() else { return };
    let lines = BufReader::new(clone).lines().map_while(Result::ok);
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let Some(first) = head.first() else { return };
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let range = head.iter().find_map(|line| line.strip_prefix("Range: bytes="));
    let from = range.and_then(|range| range.trim_end_matches('-').parse().ok());
    told.lock().expect("no thread panicked").push(Request { path, from });
    let _ = match answer {
        Answer::Ranges(file) => ranged(&mut stream, file, from, file.len()),
        Answer::Cut(file, bytes) => ranged(&mut stream, file, from, *bytes),
        Answer::Stall(file, bytes) => {
            ranged(&mut stream, file, from, *bytes).map(|()| thread::sleep(Duration::from_secs(60)))
        }
        Answer::Whole(file) => {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", file.len());
            send(&mut stream, &head, file)
        }
        Answer::Endless(file) => send(&mut stream, "HTTP/1.1 200 OK\r\n", file),
        Answer::Status(status) => {
            let head = format!("HTTP/1.1 {status} Fault\r\nContent-Length: 4\r\n");
            send(&mut stream, &head, b"oops")
        }
        Answer::Redirect(to) => {
            let head = format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n");
            send(&mut stream, &head, b"")
        }
    };
}

/// The file from a byte on, at most `bytes` of it.
fn ranged(
    stream: &mut TcpStream,
    file: &[u8],
    from: Option<usize>,
    bytes: usize,
) -> std::io::Result<()> {
    let (start, total) = (from.unwrap_or(0), file.len());
    if from.is_some() && start >= total {
        return send(stream, "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n", b"");
    }
    let status = match from {
        Some(_) => {
            format!("206 Partial Content\r\nContent-Range: bytes {start}-{}/{total}", total - 1)
        }
        None => "200 OK".to_owned(),
    };
    let rest = &file[start..];
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n", rest.len());
    send(stream, &head, &rest[..bytes.min(rest.len())])
}

fn send(stream: &mut TcpStream, head: &str, body: &[u8]) -> std::io::Result<()> {
    stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes())?;
    stream.write_all(body)?;
    stream.flush()
}

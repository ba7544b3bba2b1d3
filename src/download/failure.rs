/*!
Why a transfer failed, and what the user can do.
*/

use std::fmt;
use std::path::Path;

use anyhow::anyhow;
use indicatif::HumanBytes;

use super::Source;

/// Why a transfer failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// No curl.
    NoCurl,
    /// The host has no address, or does not answer.
    Unreachable(String),
    /// The server's status says no.
    Status(u16),
    /// No bytes for too long.
    Stalled,
    /// The connection ended early.
    Cut(String),
    /// TLS, most often a proxy's certificate.
    Certificate(String),
    /// The address is of another kind, or leads in a circle.
    Address(String),
    /// More bytes than the published file has.
    Longer(u64),
    /// The file cannot be written.
    Disk(String),
    /// No room left.
    Full,
    /// Not enough room for the rest.
    Room(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCurl => write!(out, "the program curl is not installed"),
            Self::Unreachable(told) => write!(out, "the server cannot be reached ({told})"),
            Self::Status(404) => write!(out, "the server has no such file (status 404)"),
            Self::Status(401 | 403 | 407) => write!(out, "the server refuses access"),
            Self::Status(status) => write!(out, "the server answered with status {status}"),
            Self::Stalled => write!(out, "no data came for too long"),
            Self::Cut(told) => write!(out, "the connection broke ({told})"),
            Self::Certificate(told) => {
                write!(out, "the server's certificate is not accepted ({told})")
            }
            Self::Address(told) => write!(out, "the address cannot be used ({told})"),
            Self::Longer(bytes) => write!(out, "more than the expected {bytes} bytes came"),
            Self::Disk(told) => write!(out, "the file cannot be written ({told})"),
            Self::Full => write!(out, "the disk is full"),
            Self::Room(told) => write!(out, "{told}"),
        }
    }
}

impl Failure {
    pub(super) fn of_disk(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Self::Full,
            _ => Self::Disk(error.to_string()),
        }
    }

    /// Whether another attempt may succeed.
    pub(super) fn passes(&self) -> bool {
        match self {
            Self::Stalled | Self::Cut(_) => true,
            Self::Status(status) => matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504),
            _ => false,
        }
    }

    /// What to do, as the end of a sentence.
    pub(super) fn advice(&self) -> &'static str {
        match self {
            Self::NoCurl => "; install it with: sudo apt-get install curl",
            Self::Unreachable(_) => {
                "; without a network, or behind a proxy (then set HTTPS_PROXY), nothing can be fetched"
            }
            Self::Status(401 | 403 | 407) => {
                "; a proxy may want a login (HTTPS_PROXY=http://NAME:PASSWORD@HOST:PORT)"
            }
            Self::Status(404) => "; it may have moved: another address goes with --mirror URL",
            Self::Certificate(_) => {
                "; a proxy that opens connections needs its certificate: CURL_CA_BUNDLE=FILE.pem"
            }
            Self::Full | Self::Room(_) => "; make room, or take another disk with SEGTRT_SHARE=DIR",
            _ => "",
        }
    }
}

/// What the errors of one file name.
pub(super) struct Words<'a> {
    pub source: &'a Source,
    pub part: &'a Path,
}

impl Words<'_> {
    /// The error that the user sees; `has` bytes are kept.
    pub(super) fn error(&self, failure: &Failure, has: u64) -> anyhow::Error {
        let kept = match has {
            0 => String::new(),
            _ => format!(
                " {} are kept in {}; the same command goes on from there.",
                HumanBytes(has),
                self.part.display()
            ),
        };
        anyhow!(
            "cannot fetch {}: {failure}{}.{kept} With a copy from elsewhere, {}",
            self.source.url,
            failure.advice(),
            self.source.offline
        )
    }

    /// Refuses a transfer that does not fit on the disk.
    pub(super) fn room(&self, bytes: u64) -> Result<(), Failure> {
        let dir = self.part.parent().unwrap_or(Path::new("."));
        let Ok(stat) = rustix::fs::statvfs(dir) else { return Ok(()) };
        let free = stat.f_bavail * stat.f_frsize;
        if free < bytes {
            return Err(Failure::Room(format!(
                "{} more are needed in {}, and {} are free",
                HumanBytes(bytes),
                dir.display(),
                HumanBytes(free)
            )));
        }
        Ok(())
    }
}

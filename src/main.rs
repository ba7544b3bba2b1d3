//! The `segtrt` program: parse, dispatch, exit code.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use host::UsageError;
use host::message::NOBODY_READS;
use host::printable::printable;
use segtrt::commands::config::{self, Start};
use segtrt::commands::{Outcome, accept_underscores};

fn main() -> ExitCode {
    end_quietly_when_nobody_reads();
    let cli = match config::start(accept_underscores(std::env::args_os())) {
        Ok(Start::Run(cli)) => *cli,
        Ok(Start::Print(text)) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("Error: {}", printable(&error.to_string()));
            return ExitCode::from(2);
        }
    };
    if let Err(error) = host::child::end_step_with_caller() {
        eprintln!("Error: {error:#}");
        return ExitCode::FAILURE;
    }
    let level = match cli.verbose {
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or(level))
        .format(|out, record| {
            use std::io::Write;
            writeln!(
                out,
                "[{}] {}",
                level_name(record.level()),
                printable(&record.args().to_string())
            )
        })
        .init();
    match cli.command.run() {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::PartlyFailed) => ExitCode::FAILURE,
        // What shells give a program that SIGINT ended.
        Ok(Outcome::Stopped) => ExitCode::from(130),
        Ok(Outcome::Code(code)) => ExitCode::from(code),
        Err(error) if nobody_reads(&error) => std::process::exit(NOBODY_READS),
        Err(error) => {
            eprintln!("Error: {}", printable(&format!("{error:#}")));
            let usage = error.downcast_ref::<UsageError>().is_some();
            ExitCode::from(if usage { 2 } else { 1 })
        }
    }
}

/// `segtrt … | head` ends as other programs do: `print!` would panic where the reader has gone, and
/// on a full disk.
fn end_quietly_when_nobody_reads() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let text = info.payload_as_str().unwrap_or_default();
        let Some(why) = text.strip_prefix("failed printing to ") else { return usual(info) };
        if why.contains("Broken pipe") {
            std::process::exit(NOBODY_READS);
        }
        host::message::line(format_args!("Error: cannot write {why}; is the disk full?"));
        std::process::exit(1);
    }));
}

/// A bare broken pipe is that of the output; one of a child's comes with what was written to it.
fn nobody_reads(error: &anyhow::Error) -> bool {
    let plain = error.downcast_ref().map(std::io::Error::kind);
    let json = error.downcast_ref().and_then(serde_json::Error::io_error_kind);
    let told = error.to_string();
    plain.or(json) == Some(std::io::ErrorKind::BrokenPipe) && told.starts_with("Broken pipe")
}

/// The predecessor's words for the levels that users see.
fn level_name(level: log::Level) -> &'static str {
    match level {
        log::Level::Error => "ERROR",
        log::Level::Warn => "WARN",
        log::Level::Info => "INFO",
        _ => "DEBUG",
    }
}

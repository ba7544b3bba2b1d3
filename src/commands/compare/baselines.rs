/*!
PyTorch's sides as they are typed: a mode, each with a precision of its own where one is written
behind it.
*/

use anyhow::Result;

use host::UsageError;

/// What PyTorch runs.
const MODES: [&str; 4] = ["eager", "compile", REDUCE_OVERHEAD, "vos_optimized"];

/// torch.compile with CUDA graphs, which torch calls so. The runner knows it as a way to compile.
const REDUCE_OVERHEAD: &str = "reduce_overhead";

/// Precisions of PyTorch's sides. The runner knows tf32 as fp32 with a flag.
const PRECISIONS: [&str; 4] = ["fp32", "tf32", "fp16", "bf16"];

/// One of PyTorch's sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Baseline {
    /// The name in tables and folders: `compile`; `compile-tf32` where that mode was asked for in
    /// several precisions.
    pub name: String,
    /// `eager`, `compile`, `reduce_overhead` or `vos_optimized`.
    pub mode: &'static str,
    /// `fp32`, `tf32`, `fp16` or `bf16`.
    pub precision: String,
    /// It followed the mode.
    pub own_precision: bool,
}

impl Baseline {
    /// The runner's name of the mode, and its other arguments.
    pub(super) fn runner_mode(&self) -> (&'static str, &'static [&'static str]) {
        match self.mode {
            REDUCE_OVERHEAD => ("compile", &["--compile-mode", "reduce-overhead"]),
            mode => (mode, &[]),
        }
    }
}

/// The sides of `--baselines`; those that name no precision have `usual`.
///
/// # Errors
/// An unknown mode or precision, or the same side twice.
pub(super) fn baselines(words: &[String], usual: &str) -> Result<Vec<Baseline>> {
    let words: Vec<&str> =
        words.iter().map(|word| word.trim()).filter(|word| !word.is_empty()).collect();
    let mut sides = words.iter().map(|word| one(word, usual)).collect::<Result<Vec<_>>>()?;
    for (at, side) in sides.iter().enumerate() {
        let is_same =
            |other: &Baseline| (other.mode, &other.precision) == (side.mode, &side.precision);
        if sides[..at].iter().any(is_same) {
            return usage(format!(
                "--baselines {}: {} in {} is there twice",
                words.join(","),
                side.mode,
                side.precision
            ));
        }
    }
    let modes: Vec<&str> = sides.iter().map(|side| side.mode).collect();
    for side in &mut sides {
        let several = modes.iter().filter(|mode| **mode == side.mode).count() > 1;
        if several && side.own_precision {
            side.name = format!("{}-{}", side.mode, side.precision);
        }
    }
    Ok(sides)
}

fn one(word: &str, usual: &str) -> Result<Baseline> {
    let (mode, own) = match word.split_once(':') {
        Some((mode, own)) => (mode, Some(own)),
        None => (word, None),
    };
    let Some(mode) = MODES.into_iter().find(|known| *known == mode) else {
        return usage(format!("--baselines {word}: PyTorch's sides are {}", MODES.join(", ")));
    };
    if own.is_some_and(|own| !PRECISIONS.contains(&own)) {
        return usage(format!(
            "--baselines {word}: PyTorch's precisions are {}; write such as {mode}:tf32",
            PRECISIONS.join(", ")
        ));
    }
    let precision = own.unwrap_or(usual).to_owned();
    Ok(Baseline { name: mode.to_owned(), mode, precision, own_precision: own.is_some() })
}

fn usage<T>(text: String) -> Result<T> {
    Err(UsageError(text).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &str) -> Result<Vec<Baseline>> {
        let words: Vec<String> = words.split(',').map(str::to_owned).collect();
        baselines(&words, "fp16")
    }

    #[test]
    fn a_mode_shows_its_precision_where_there_are_several() {
        let shown = |words: &str| -> Vec<(String, String)> {
            let sides = of(words).unwrap().into_iter();
            sides.map(|side| (side.name, side.precision)).collect()
        };
        let pair = |name: &str, precision: &str| (name.to_owned(), precision.to_owned());
        assert_eq!(shown(""), []);
        assert_eq!(shown("eager, compile"), [pair("eager", "fp16"), pair("compile", "fp16")]);
        assert_eq!(
            shown("eager:fp16,compile:fp16,compile:tf32"),
            [pair("eager", "fp16"), pair("compile-fp16", "fp16"), pair("compile-tf32", "tf32")]
        );
        // A side that was measured before under its plain name keeps it.
        assert_eq!(
            shown("compile,compile:tf32"),
            [pair("compile", "fp16"), pair("compile-tf32", "tf32")]
        );
        assert_eq!(
            shown("compile,reduce_overhead"),
            [pair("compile", "fp16"), pair("reduce_overhead", "fp16")]
        );
    }

    #[test]
    fn cuda_graphs_are_a_way_to_compile() {
        let runs = |words: &str| of(words).unwrap()[0].runner_mode();
        assert_eq!(runs("compile"), ("compile", [].as_slice()));
        let graphs = ["--compile-mode", "reduce-overhead"];
        assert_eq!(runs("reduce_overhead:tf32"), ("compile", graphs.as_slice()));
        assert_eq!(runs("vos_optimized").0, "vos_optimized");
    }

    #[test]
    fn what_is_unknown_or_there_twice_is_refused() {
        for (words, told) in [
            ("jit", "eager, compile, reduce_overhead, vos_optimized"),
            ("compile:", "compile:tf32"),
            ("compile:mixed", "fp32, tf32, fp16, bf16"),
            ("compile:tf32,compile:tf32", "compile in tf32 is there twice"),
            ("compile,compile:fp16", "compile in fp16 is there twice"),
        ] {
            let error = of(words).unwrap_err();
            assert!(error.is::<UsageError>() && error.to_string().contains(told), "{error}");
        }
    }
}

/*!
Whether a bench can run here, and on which backend.
*/

use serde::Serialize;

use super::check::State;

/// The findings that decide.
#[derive(Clone, Copy, Debug)]
pub struct Evidence {
    /// ONNX Runtime opens.
    pub onnxruntime: bool,
    /// A bundle can be used.
    pub bundles: bool,
    /// There is a GPU.
    pub gpu: bool,
    /// A TensorRT opens.
    pub tensorrt: bool,
    /// Engines fit both.
    pub engines: bool,
    /// The named split.
    pub split: State,
}

/// Whether one backend can run, and what it lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ability {
    /// It can run.
    pub can_run: bool,
    /// What it lacks.
    pub lacks: Vec<&'static str>,
}

/// Both backends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// ONNX Runtime on the CPU.
    pub cpu: Ability,
    /// TensorRT on a GPU.
    pub gpu: Ability,
}

impl Verdict {
    /// A bench can run on this machine.
    pub fn can_run(&self) -> bool {
        self.cpu.can_run || self.gpu.can_run
    }

    /// One sentence for people.
    pub fn sentence(&self) -> String {
        let side = |name: &str, ability: &Ability| match ability.can_run {
            true => format!("{name}: ready"),
            false => format!("{name}: lacks {}", ability.lacks.join(", ")),
        };
        let whole =
            if self.can_run() { "a bench can run here" } else { "no bench can run here yet" };
        format!("{whole} ({}; {})", side("CPU", &self.cpu), side("GPU", &self.gpu))
    }
}

/// Judges the findings. A split that cannot be used counts against the machine; a missing
/// --split-dir does not.
pub fn judge(evidence: &Evidence) -> Verdict {
    let ability = |needs: &[(bool, &'static str)]| {
        let split = (evidence.split != State::Missing, "the named split");
        let needs = needs.iter().copied().chain([split]);
        let lacks: Vec<&'static str> =
            needs.filter(|(there, _)| !there).map(|(_, what)| what).collect();
        Ability { can_run: lacks.is_empty(), lacks }
    };
    Verdict {
        cpu: ability(&[
            (evidence.onnxruntime, "ONNX Runtime"),
            (evidence.bundles, "a sound bundle"),
        ]),
        gpu: ability(&[
            (evidence.gpu, "a GPU"),
            (evidence.tensorrt, "TensorRT"),
            (evidence.engines, "engines for this GPU and TensorRT"),
        ]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Evidence = Evidence {
        onnxruntime: true,
        bundles: true,
        gpu: true,
        tensorrt: true,
        engines: true,
        split: State::Ok,
    };

    #[test]
    fn either_backend_is_enough_and_a_broken_split_is_not() {
        assert!(judge(&ALL).can_run());
        let cpu = judge(&Evidence {
            gpu: false,
            tensorrt: false,
            engines: false,
            split: State::NotAsked,
            ..ALL
        });
        assert!(cpu.can_run() && cpu.cpu.can_run && !cpu.gpu.can_run);
        assert_eq!(
            cpu.sentence(),
            "a bench can run here (CPU: ready; GPU: lacks a GPU, TensorRT, engines for this GPU and TensorRT)"
        );
        let gpu = judge(&Evidence { onnxruntime: false, ..ALL });
        assert!(gpu.can_run() && !gpu.cpu.can_run);
        let neither = judge(&Evidence { bundles: false, engines: false, ..ALL });
        assert!(!neither.can_run(), "{neither:?}");
        assert!(!judge(&Evidence { split: State::Missing, ..ALL }).can_run());
        assert!(judge(&Evidence { split: State::Warning, ..ALL }).can_run());
    }
}

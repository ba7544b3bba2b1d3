/*!
Programmatic dependent launch (PDL) of kernels that every GPU from sm 80 on runs.

A kernel that is launched so may start while the previous one still runs, and waits itself before it
touches memory that others write. GPUs have the instructions from sm 90 on. The PTX of these kernels
is for sm 80 and has them as comments (`cuda/ptx.cuh`). Here they become instructions, so that one
text serves all GPUs.
*/

/// The least GPU with the instructions.
pub(crate) const SM: u32 = 90;
/// What an instruction of these stands behind in PTX for older GPUs.
const MARK: &str = "// sm_90: ";
const TARGET: &str = ".target sm_";

/// How a module's kernels wait on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependents {
    /// The GPU has no such instructions: they stay comments.
    Never,
    /// The PTX is for the very GPU that has them.
    Own,
    /// Comments become instructions.
    Rewritten,
}

impl Dependents {
    /// Of PTX for `target` ("sm_80", "sm_90a") on a GPU of compute capability `sm`.
    pub fn of(target: &str, sm: u32) -> Self {
        match () {
            () if target.ends_with('a') => Self::Own,
            () if sm >= SM => Self::Rewritten,
            () => Self::Never,
        }
    }

    /// Whether a kernel that waits in its source does so on this GPU.
    pub fn waits(self) -> bool {
        self != Self::Never
    }

    /// The text that the driver is given.
    pub fn ptx(self, ptx: String) -> String {
        if self != Self::Rewritten {
            return ptx;
        }
        let line = |line: &str| match (line.strip_prefix(MARK), line.starts_with(TARGET)) {
            (Some(instruction), _) => instruction.to_owned(),
            (None, true) => format!("{TARGET}{SM}"),
            (None, false) => line.to_owned(),
        };
        ptx.lines().flat_map(|text| [line(text), "\n".to_owned()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::Topic;

    const PTX: &str =
        ".version 7.8\n.target sm_80\n// sm_90: griddepcontrol.wait;\n// rest\nret;\n";

    #[test]
    fn instructions_that_a_gpu_has_stand_in_its_ptx() {
        let on = |target: &str, sm: u32| Dependents::of(target, sm).ptx(PTX.to_owned());
        let changed = ".version 7.8\n.target sm_90\ngriddepcontrol.wait;\n// rest\nret;\n";
        for sm in [80, 86, 87, 89] {
            assert_eq!(on("sm_80", sm), PTX);
            assert!(!Dependents::of("sm_80", sm).waits(), "{sm}");
        }
        for sm in [90, 100, 120] {
            assert_eq!(on("sm_80", sm), changed);
            assert!(Dependents::of("sm_80", sm).waits(), "{sm}");
        }
        assert_eq!(Dependents::of("sm_90a", 90), Dependents::Own);
        assert!(Dependents::Own.waits() && Dependents::Own.ptx(PTX.to_owned()) == PTX);
    }

    /// Of every module: as many waits as its entries say, all of them behind the mark, and an
    /// instruction for each of them afterwards.
    #[test]
    fn every_kernel_that_waits_has_the_instruction_where_it_is_rewritten() {
        let mut waiting = 0;
        for topic in Topic::ALL {
            let (ptx, target) = topic.ptx();
            let waits = |text: &str| text.lines().any(|line| line == "griddepcontrol.wait;");
            let rewritten = Dependents::of(target, 90).ptx(ptx.clone());
            assert!(target.ends_with('a') || !waits(&ptx), "{topic:?} is for older GPUs, too");
            assert!(!rewritten.contains(MARK), "{topic:?}");
            for (entry, text) in
                topic.entries().iter().zip(rewritten.split(".visible .entry ").skip(1))
            {
                assert!(text.starts_with(&format!("{}(", entry.name)));
                assert_eq!(waits(text), entry.waits, "{}", entry.name);
                waiting += usize::from(entry.waits && !target.ends_with('a'));
            }
        }
        assert!(waiting > 0);
    }

    /// Chains are of kernels that can all start early.
    #[test]
    fn all_kernels_of_chains_wait() {
        let chains = [
            crate::repvit::selftest::TOPIC,
            crate::mask_decoder::selftest::TOPIC,
            crate::memory_attention::selftest::TOPIC,
            crate::memory_encoder::selftest::TOPIC,
        ];
        let chained = chains.iter().flat_map(|chain| chain.sources);
        let of_hiera = [
            Topic::AttentionGlobalHopper,
            Topic::WindowAttention,
            Topic::WindowAttentionHopper,
            Topic::Neck,
        ];
        for entry in chained.chain(&of_hiera).flat_map(|topic| topic.entries()) {
            assert!(entry.waits, "{}", entry.name);
        }
        let heads = Topic::Attention.entries().iter().map(|entry| entry.name);
        let heads = heads.filter(|name| name.starts_with("attention_heads"));
        let names: Vec<&str> = heads.chain(["hiera_max_pool"]).collect();
        assert!(names.len() > 1);
        for name in names {
            let entry = [Topic::Hiera, Topic::Attention].iter().find_map(|topic| topic.entry(name));
            assert!(entry.unwrap().waits, "{name}");
        }
    }
}

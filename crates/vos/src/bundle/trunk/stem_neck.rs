/*!
Stem and neck that custom CUDA kernels compute, too: `[trunk.stem]` and `[trunk.neck]`.

With both of them no engine computes any part of the encoder. Their weights are in the trunk's file.

Stem, blocks and neck exchange tokens channels-last, \[grid, grid, columns\] in image order. Their
type is [`StemAndNeck::dtype`]. A RepViT's are f16. A Hiera's are the residual in f32: the stem
writes it, each stage's blocks update it in place, and the neck rounds it to f16 for its products.
*/

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::stem::{IMAGE, PATCH, StemShape, StemWeights, layer};
use super::weights::{LayerBytes, MIXED, TrunkWeights};
use super::{MapShape, STAGES, Trunk, TrunkBlocks};
use crate::bundle::fused_part::Plans;
use crate::bundle::manifest::{Axis, DType, Manifest, Tensor};
use crate::bundle::role::Role;
use crate::bundle::tensors::Tensor as FileTensor;

/// Columns of a feature that the neck's kernel is held to.
const MOST_FEATURE: usize = 1024;

/// Four products of the stages' tokens: `hr0` and `hr1` of the first two, `feat` of the third's and
/// the upsampled fourth's sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeckShape {
    /// Channels of `hr0`.
    pub hr0: usize,
    /// Channels of `hr1`.
    pub hr1: usize,
    /// Channels of `feat`.
    pub feat: usize,
}

/// Stem and neck, and what they take and give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StemAndNeck {
    /// The stem.
    pub stem: StemShape,
    /// The neck.
    pub neck: NeckShape,
    /// The tokens that the stem makes.
    pub tokens: MapShape,
    /// Those that the neck takes.
    pub stages: [MapShape; STAGES],
    /// Type of all tokens.
    pub dtype: DType,
}

/// What stem and neck compute with. Products are f16\[columns out, columns in\] with biases in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StemAndNeckWeights<'a> {
    /// The stem's.
    pub stem: StemWeights<'a>,
    /// Of `hr0`, `hr1`, and of `feat` the third and the fourth stage's.
    pub neck: [LayerBytes<'a>; STAGES],
}

/// The neck's layers in the file, in the order of the stages.
const LAYERS: [&str; STAGES] = ["hr0", "hr1", "middle", "coarse"];

impl StemAndNeck {
    /// Pixels of the image's side.
    pub fn side(&self) -> usize {
        PATCH * self.tokens.grid
    }

    /// Columns of each stage's result.
    pub fn columns(&self) -> [usize; STAGES] {
        let NeckShape { hr0, hr1, feat } = self.neck;
        [hr0, hr1, feat, feat]
    }

    /// The image that the stem takes, and `feat`, `hr0` and `hr1`, which the neck makes.
    pub fn ports(&self) -> [Tensor; 4] {
        let port = |name: &str, channels, side| Tensor {
            name: name.to_owned(),
            dtype: DType::F16,
            shape: [1, channels, side, side].map(Axis::Fixed).to_vec(),
        };
        let [fine, finer, middle, _] = self.stages;
        let NeckShape { hr0, hr1, feat } = self.neck;
        [
            port("image", IMAGE, self.side()),
            port("feat", feat, middle.grid),
            port("hr0", hr0, fine.grid),
            port("hr1", hr1, finer.grid),
        ]
    }

    /// 2 × multiply-accumulates for one image.
    pub fn flops(&self) -> u64 {
        let of_stage =
            |(map, columns): (&MapShape, usize)| map.grid * map.grid * map.columns * columns;
        let neck: usize = self.stages.iter().zip(self.columns()).map(of_stage).sum();
        (self.stem.flops(self.tokens) + 2 * neck) as u64
    }

    fn tensors(&self) -> Vec<FileTensor> {
        let of_stage = |((name, rows), map): ((&str, usize), MapShape)| {
            layer(&format!("neck.{name}"), [rows, map.columns], MIXED)
        };
        let products = LAYERS.into_iter().zip(self.columns()).zip(self.stages);
        let mut all = self.stem.tensors(self.tokens);
        all.extend(products.flat_map(of_stage));
        all
    }

    /// That the kernels serve them around these blocks.
    fn check(&self, blocks: &TrunkBlocks) -> Result<()> {
        self.stem.check(blocks, self.tokens)?;
        let halves = self.stages.windows(2).all(|two| two[0].grid == 2 * two[1].grid);
        let sides = self.stages.map(|map| map.grid);
        ensure!(
            halves,
            "the stages' maps have sides of {sides:?} tokens, expected each to be half of the one \
             before it"
        );
        for columns in self.columns() {
            ensure!(
                (1..=MOST_FEATURE).contains(&columns),
                "the neck makes {columns} channels, expected 1 to {MOST_FEATURE}"
            );
        }
        Ok(())
    }
}

impl Trunk {
    /// The word of the `backend` column for a run in which kernels compute the whole encoder.
    pub const WHOLE_LABEL: &'static str = "encoder";

    /// Stem and neck where kernels, not plans, compute the whole encoder in this engine folder:
    /// objects can be prompted, and the encoder was built neither whole nor in its parts. The
    /// kernels compute in fp16.
    pub fn computes_all(manifest: &Manifest, plans: &Plans<'_>) -> Option<StemAndNeck> {
        let both = manifest.trunk.as_ref()?.stem_and_neck()?;
        let parts = manifest.encoder_parts();
        let in_parts = !parts.is_empty() && parts.iter().all(|part| (plans.has)(part.role));
        let is_built = in_parts || (plans.has)(Role::Encoder);
        (plans.halves && (plans.has)(Role::Prompt) && !is_built).then_some(both)
    }

    /// Stem and neck, where the kernels of the blocks compute them too; else engines do.
    pub fn stem_and_neck(&self) -> Option<StemAndNeck> {
        let (stem, neck) = self.stem.zip(self.neck)?;
        let [tokens, _] = self.blocks.maps(0)?;
        let (stages, dtype) = (self.stages().ok()?, self.blocks.dtype());
        Some(StemAndNeck { stem, neck, tokens, stages, dtype })
    }

    /// Their tensors.
    pub(super) fn tensors_of_stem_and_neck(&self) -> Vec<FileTensor> {
        self.stem_and_neck().map(|both| both.tensors()).unwrap_or_default()
    }

    /// Checks stem and neck, where there are any, against the encoder in one piece.
    ///
    /// # Errors
    /// One without the other, another network's stem, sizes that the kernels do not serve, or ports
    /// that differ.
    pub(super) fn check_stem_and_neck(&self, manifest: &Manifest) -> Result<()> {
        if self.stem.is_none() && self.neck.is_none() {
            return Ok(());
        }
        let both = self
            .stem_and_neck()
            .context("expected both [trunk.stem] and [trunk.neck], or neither")?;
        both.check(&self.blocks)?;
        let whole = manifest.graph(Role::Encoder).context("the encoder graph is missing")?;
        for wanted in both.ports() {
            let mut ports = whole.inputs.iter().chain(&whole.outputs);
            let found = ports.find(|port| port.name == wanted.name);
            let found = found.with_context(|| format!("the encoder has no '{}'", wanted.name))?;
            ensure!(
                (found.dtype, &found.shape) == (wanted.dtype, &wanted.shape),
                "the encoder has {found}, the kernels of its stem and neck {wanted}"
            );
        }
        Ok(())
    }
}

impl TrunkWeights {
    /// Those of stem and neck.
    ///
    /// # Errors
    /// The file has none.
    pub fn stem_and_neck(&self) -> Result<StemAndNeckWeights<'_>> {
        let [hr0, hr1, middle, coarse] = LAYERS.map(|name| self.named(&format!("neck.{name}")));
        Ok(StemAndNeckWeights { stem: self.stem()?, neck: [hr0?, hr1?, middle?, coarse?] })
    }
}

#[cfg(test)]
mod tests {
    use safetensors::tensor::Dtype;

    use super::super::fixtures::{repvit, small};
    use super::*;
    use crate::bundle::{Bundle, FusedPart};

    /// A bundle whose encoder the kernels compute as a whole, with a RepViT.
    fn whole() -> (Manifest, StemAndNeck) {
        whole_of(repvit(), StemShape::Convolutions { middle: 8 })
    }

    /// With these blocks behind that stem.
    fn whole_of(mut trunk: Trunk, stem: StemShape) -> (Manifest, StemAndNeck) {
        let mut manifest =
            Bundle::open("../../onnx/bundles/edgetam_mini_256_fp32".as_ref()).unwrap().manifest;
        trunk.stem = Some(stem);
        trunk.neck = Some(NeckShape { hr0: 6, hr1: 12, feat: 48 });
        let both = trunk.stem_and_neck().unwrap();
        manifest.trunk = Some(trunk);
        let encoder = manifest.graphs.iter_mut().find(|graph| graph.role == Role::Encoder).unwrap();
        let [image, features @ ..] = both.ports();
        (encoder.inputs, encoder.outputs) = (vec![image], features.to_vec());
        (manifest, both)
    }

    #[test]
    fn stem_and_neck_say_what_they_take_and_give() {
        let (manifest, both) = whole();
        manifest.trunk.as_ref().unwrap().check_against(&manifest).unwrap();
        let ports = both.ports().map(|port| port.to_string());
        let expected = ["image f16[1,3,64,64]", "feat f16[1,48,4,4]", "hr0 f16[1,6,16,16]"];
        assert_eq!(ports[..3], expected);
        assert_eq!(both.side(), 64);
        let stem = 2 * (32 * 32 * 27 * 8 + 16 * 16 * 72 * 16);
        let neck = 2 * (256 * 16 * 6 + 64 * 24 * 12 + 16 * 48 * 48 + 4 * 64 * 48);
        assert_eq!(both.flops(), stem + neck);
        let tensors = Trunk::tensors(manifest.trunk.as_ref().unwrap());
        let found = tensors.iter().find(|tensor| tensor.name == "stem.second.weight").unwrap();
        assert_eq!((found.dtype, &found.shape), (Dtype::F16, &vec![16, 72]));
        assert!(tensors.iter().any(|tensor| tensor.name == "neck.coarse.bias"));
        assert!(!Trunk::tensors(&repvit()).iter().any(|tensor| tensor.name.starts_with("neck")));
    }

    #[test]
    fn hieras_stem_embeds_patches_and_its_tokens_are_floats() {
        let (manifest, both) = whole_of(small(), StemShape::Patches { kernel: 7 });
        manifest.trunk.as_ref().unwrap().check_against(&manifest).unwrap();
        assert_eq!((both.dtype, both.side()), (DType::F32, 64));
        let neck = 2 * (256 * 8 * 6 + 64 * 16 * 12 + 16 * 32 * 48 + 4 * 64 * 48);
        assert_eq!(both.flops(), 2 * 256 * 147 * 8 + neck);
        let tensors = Trunk::tensors(manifest.trunk.as_ref().unwrap());
        let shape = |name: &str| {
            let found = tensors.iter().find(|tensor| tensor.name == name).unwrap();
            (found.dtype, found.shape.clone())
        };
        assert_eq!(shape("stem.patch.weight"), (Dtype::F16, vec![8, 147]));
        assert_eq!(shape("stem.patch.bias"), (Dtype::F32, vec![8]));
        assert_eq!(shape("stem.position"), (Dtype::F16, vec![16, 16, 8]));
        let text = toml::to_string(manifest.trunk.as_ref().unwrap()).unwrap();
        assert!(text.contains("[stem]\nkernel = 7\n"), "{text}");
        assert_eq!(toml::from_str::<Trunk>(&text).unwrap(), manifest.trunk.unwrap());
        let (mut other, _) = whole_of(small(), StemShape::Patches { kernel: 7 });
        other.trunk.as_mut().unwrap().stem = Some(StemShape::Patches { kernel: 9 });
        let error = other.trunk.as_ref().unwrap().check_against(&other).unwrap_err();
        let said = "8 columns of patches of 9 pixels a side, expected at most 192 of 7";
        assert!(format!("{error:#}").contains(said), "{error:#}");
    }

    #[test]
    fn what_the_kernels_of_stem_and_neck_do_not_serve_is_refused() {
        let refused = |change: &dyn Fn(&mut Manifest), said: &str| {
            let (mut manifest, _) = whole();
            change(&mut manifest);
            let error = manifest.trunk.as_ref().unwrap().check_against(&manifest).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.contains(said), "{said:?} is not in {error:?}");
        };
        fn trunk(manifest: &mut Manifest) -> &mut Trunk {
            manifest.trunk.as_mut().unwrap()
        }
        refused(&|m| trunk(m).neck = None, "both [trunk.stem] and [trunk.neck], or neither");
        refused(
            &|m| trunk(m).stem = Some(StemShape::Convolutions { middle: 32 }),
            "16 columns of 32, expected",
        );
        refused(
            &|m| trunk(m).stem = Some(StemShape::Patches { kernel: 7 }),
            "with 'kernel' is a Hiera's, the blocks are RepViT's",
        );
        refused(
            &|m| trunk(m).neck = Some(NeckShape { hr0: 0, hr1: 12, feat: 48 }),
            "the neck makes 0 channels",
        );
        refused(
            &|m| trunk(m).neck = Some(NeckShape { hr0: 8, hr1: 12, feat: 48 }),
            "the encoder has hr0 f16[1,6,16,16], the kernels of its stem and neck hr0 f16[1,8,16,16]",
        );
        refused(
            &|m| {
                let (stem, neck) = (trunk(m).stem, trunk(m).neck);
                m.trunk = Some(Trunk { stem, neck, ..small() });
            },
            "with 'middle' is a RepViT's, the blocks are Hiera's",
        );
    }

    #[test]
    fn kernels_compute_the_encoder_where_no_plan_does() {
        let (manifest, both) = whole();
        let computed = |roles: &[Role], halves: bool| {
            let has = |role: Role| roles.contains(&role);
            let plans = Plans { has: &has, halves, memory_attention: false };
            let replaces = Trunk::replaces_plan(&manifest, &plans);
            (Trunk::computes_all(&manifest, &plans), replaces)
        };
        assert_eq!(computed(&[Role::Prompt], true), (Some(both), true));
        assert_eq!(computed(&[Role::Prompt], false), (None, false));
        assert_eq!(computed(&[Role::Memory], true), (None, false), "nothing can be prompted");
        assert_eq!(computed(&[Role::Prompt, Role::Encoder], true), (None, false));
        let mut old = manifest.clone();
        old.trunk = Some(repvit());
        let plans =
            Plans { has: &|role| role == Role::Prompt, halves: true, memory_attention: false };
        assert!(!Trunk::replaces_plan(&old, &plans));
    }
}

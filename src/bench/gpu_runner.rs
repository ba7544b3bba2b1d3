/*!
The GPU pipeline as the bench drives it: engines opened once, objects of a clip run together.
*/

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};

use super::clip_run::{ClipPass, all_frames};
use super::object_error::ObjectError;
use super::plan::GpuPlan;
use super::runner::{ClipRunner, ObjectFrame, PassRequest, Take};
use cuda::{Gpu, MemoryTag, nvjpeg};
use execution::TensorRtMemory;
use runtime::pipeline::{
    self, Engines, FrameResult, JpegDecoder, ObjectSpan, PassError, PassPlan, Pipeline,
};
use tensorrt::{Library, Runtime};
use vos::bundle::{FusedPart, Manifest, MaskDecoderPart, MemoryAttentionPart, MemoryEncoderPart};
use vos::geometry::Geometry;
use vos::logits::rounded;
use vos::mask::Mask;
use vos::record::{Backend, DeviceMemoryUse, FrameTransfer, MemoryPeaks, TensorRtBackend};

/// A pipeline for the objects of one model.
pub struct GpuRunner {
    pipeline: Pipeline,
    plan: GpuPlan,
    /// Free memory of the device before the engines were opened, bytes.
    free_before: u64,
    /// The most that was missing of it since the last reset, bytes.
    reserved: u64,
}

/// What opening the engines showed.
#[derive(Clone, Debug)]
pub struct Opened {
    /// TensorRT and the kernels.
    pub backend: Backend,
    /// The device column.
    pub device: String,
    /// Library and driver, for the sidecar.
    pub library: String,
    /// The same without the library's file and options.
    pub version: String,
    /// Compute capability of the GPU, 90 for 9.0; none where no engine runs.
    pub sm: Option<u32>,
    /// From opened driver to engines that can be run, ms.
    pub load_ms: f64,
}

/// What a pipeline is made of. It may go to another thread, where a pipeline stays on its own.
pub struct Parts {
    gpu: Gpu,
    engines: Engines,
    nvjpeg: Option<nvjpeg::Library>,
    library: Library,
    free_before: u64,
    begun: Instant,
}

impl Parts {
    /// Opens the engines of `dir` as `plan` says.
    ///
    /// # Errors
    /// No GPU, no TensorRT, or engines that do not run here.
    pub fn open(plan: &GpuPlan, dir: &Path, with_mask: bool) -> Result<Self> {
        let gpu = Gpu::open(plan.device)?;
        let (free_before, _) = gpu.memory_info()?;
        let nvjpeg = match plan.options.jpeg_decoder {
            JpegDecoder::Turbo => None,
            JpegDecoder::Nvjpeg => Some(nvjpeg::open(Some(&gpu.facts().driver_cuda))?),
        };
        let library = runtime::tensorrt_library::open(plan.tensorrt_lib.as_deref())?;
        let begun = Instant::now();
        let memory = Arc::new(TensorRtMemory::new(&gpu.tagged(MemoryTag::Weights)));
        let runtime = Runtime::with_memory(&library, memory, None)?;
        let engines = Engines::open(
            &gpu,
            runtime,
            dir,
            with_mask,
            plan.track_variant,
            plan.options.encode_batch,
        )?;
        let gpu = engines.manifest.gpu(&gpu);
        let gpu = if plan.lanes.is_some() { gpu.sharing_constants() } else { gpu };
        Ok(Self { gpu, engines, nvjpeg, library, free_before, begun })
    }

    /// The same for one more pipeline beside this one.
    ///
    /// # Errors
    /// Engines that cannot be opened again.
    pub fn again(&self) -> Result<Self> {
        Ok(Self {
            gpu: self.gpu.clone(),
            engines: self.engines.again()?,
            nvjpeg: self.nvjpeg.clone(),
            library: self.library.clone(),
            free_before: self.free_before,
            begun: self.begun,
        })
    }

    /// The engines.
    pub fn engines(&self) -> &Engines {
        &self.engines
    }

    /// The GPU.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }
}

impl GpuRunner {
    /// A pipeline of `parts`, as `plan` says.
    ///
    /// # Errors
    /// Engines that do not fit together, or too little memory.
    pub fn new(parts: Parts, plan: &GpuPlan) -> Result<(Self, Opened)> {
        let Parts { gpu, engines, nvjpeg, library, free_before, begun } = parts;
        let release = library.version();
        let steps = &engines.steps;
        let mut backend = TensorRtBackend {
            product: release.product().to_owned(),
            version: release.numbers(),
            precision: engines.manifest.precision,
            track: steps.track.variant(),
            cuda_parts: Vec::new(),
            ampere_plus: engines.manifest.is_ampere_plus(),
            graphs: plan.options.graphs,
            encode_batch: plan.options.batch(),
        };
        let (attention, decoder) = (steps.track.has_cuda_layers(), steps.track.has_cuda_decoder());
        let memory = steps.memory.engine().is_none();
        let pipeline = Pipeline::new(&gpu, engines, plan.options, nvjpeg.as_ref())?;
        let load_ms = begun.elapsed().as_secs_f64() * 1e3;
        let facts = gpu.facts();
        let parts = [
            pipeline.encoder_label(),
            attention.then_some(MemoryAttentionPart::LABEL),
            decoder.then_some(MaskDecoderPart::LABEL),
            memory.then_some(MemoryEncoderPart::LABEL),
        ];
        backend.cuda_parts = parts.into_iter().flatten().map(str::to_owned).collect();
        let form = pipeline.attention().map(|form| format!(", attention from {form}"));
        let trunk =
            pipeline.products().map(|library| format!(", the trunk's products by {library}"));
        let frames = nvjpeg.map(|library| {
            format!(
                ", frames decoded by {library}, {}, entropy code on the host",
                library.path().display()
            )
        });
        let opened = Opened {
            version: format!("{release}, driver for CUDA {}", facts.driver_cuda),
            backend: Backend::TensorRt(backend),
            device: facts.name.clone(),
            library: format!(
                "{} ({release}), {} (sm {}), driver for CUDA {}{}{}{}",
                library.path().display(),
                facts.name,
                facts.sm,
                facts.driver_cuda,
                form.unwrap_or_default(),
                trunk.unwrap_or_default(),
                frames.unwrap_or_default()
            ),
            sm: Some(facts.sm),
            load_ms,
        };
        let runner = Self { pipeline, plan: plan.clone(), free_before, reserved: 0 };
        Ok((runner, opened))
    }

    fn note_reserved(&mut self) {
        if let Ok((free, _)) = self.pipeline.gpu().memory_info() {
            self.reserved = self.reserved.max(self.free_before.saturating_sub(free));
        }
    }
}

impl ClipRunner for GpuRunner {
    fn manifest(&self) -> &Manifest {
        self.pipeline.manifest()
    }

    fn objects_together(&self) -> usize {
        self.plan.objects_together
    }

    fn warmup_frames(&self) -> usize {
        self.pipeline.warmup_frames()
    }

    fn repeats(&self) -> usize {
        self.plan.repeat_clip
    }

    fn reset_peaks(&mut self, geometry: &Geometry) {
        // The last clip's frames are no part of this one's peak.
        self.pipeline.leave_clip_for(geometry);
        self.pipeline.gpu().pool().reset_peak();
        self.reserved = 0;
    }

    fn gpu_memory(&self) -> MemoryPeaks {
        let mib = |bytes: u64| Some(bytes as f64 / f64::from(1 << 20));
        MemoryPeaks {
            gpu_peak_alloc_mib: mib(self.pipeline.gpu().pool().usage().peak),
            gpu_peak_reserved_mib: mib(self.reserved),
            cpu_peak_rss_mib: None,
        }
    }

    fn memory_use(&self) -> Option<DeviceMemoryUse> {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let usage = self.pipeline.gpu().pool().usage();
        let of = |tag: MemoryTag| mib(usage.by_tag[tag as usize]);
        Some(DeviceMemoryUse {
            weights: of(MemoryTag::Weights),
            activations: of(MemoryTag::Scratch),
            inputs: of(MemoryTag::Frames),
            features: of(MemoryTag::Features),
            bank: of(MemoryTag::Bank),
            outputs: of(MemoryTag::Results),
            own: of(MemoryTag::Other),
            outside: self.reserved.checked_sub(usage.current).filter(|rest| *rest > 0).map(mib),
            engines: self.pipeline.engines().memory(),
        })
    }

    fn most_points(&self) -> Option<usize> {
        Some(self.pipeline.most_points())
    }

    fn transfer(&self) -> Option<FrameTransfer> {
        self.pipeline.transfer()
    }

    fn lost(&self) -> Option<String> {
        // A fault of the device stays with the process's context; any other error is reported once.
        let gpu = self.pipeline.gpu();
        let again = gpu.synchronize().or_else(|_| gpu.synchronize());
        again.err().map(|error| error.to_string())
    }

    fn stream_pass(
        &mut self,
        request: PassRequest<'_>,
        repeats: usize,
        keep: &dyn Fn(usize, usize) -> bool,
        take: &mut Take<'_>,
    ) -> Result<Vec<ClipPass>, ObjectError> {
        let PassRequest { clip, prepared, geometry, objects, logits } = request;
        // Positions count the frames of all objects.
        let all = all_frames(objects).context("a pass over no object")?;
        let grid: Vec<usize> = all.indices().collect();
        let once = grid.len();
        let frames = grid.repeat(repeats.max(1));
        let more = frames.len() - once;
        let spans = objects.iter().enumerate().map(|(at, object)| {
            let begin = (object.span.start - all.start) / all.stride;
            let step = object.span.stride / all.stride;
            let end = begin + (object.span.frames() - 1) * step + 1 + more;
            let logits = logits.get(at).copied().unwrap_or_default();
            ObjectSpan { prompt: &object.prompt, start: begin, end, step, logits }
        });
        let plan = PassPlan { clip, prepared, geometry, frames, objects: spans.collect() };
        let first_ends: Vec<usize> = plan.objects.iter().map(|object| object.end - more).collect();
        let mut passes: Vec<ClipPass> = objects.iter().map(|_| ClipPass::default()).collect();
        let (width, height) = geometry.video_size();
        let mut refused = None;
        let mut receive = |result: FrameResult<'_>| -> Result<()> {
            let FrameResult { object, position, results, times, mask_at, logits, pixels } = result;
            let pass = &mut passes[object];
            let mut mask = None;
            pass.times.push(times);
            // A clip that comes again gives no more masks, so that memory does not grow with it;
            // and where the object's own part ends before that of others, what it runs on through
            // is not scored.
            if position < first_ends[object] {
                pass.objectness.push(results.objectness);
                pass.predicted_iou.push(results.predicted_iou);
                pass.selections.push(results.selection);
                let floats = logits.unwrap_or_default().chunks_exact(size_of::<f32>());
                let floats = floats.filter_map(|bytes| bytes.first_chunk().copied());
                pass.logits.extend(floats.map(|bytes| rounded(f32::from_le_bytes(bytes))));
                if keep(object, times.frame) {
                    let words = results.words.chunks_exact(8);
                    let words = words.filter_map(|word| word.first_chunk().copied());
                    let words = words.map(u64::from_le_bytes).collect();
                    let whole = Mask::from_words(width, height, words);
                    mask = Some(whole.context("a mask of another size than the video came")?);
                }
            }
            let frame = ObjectFrame {
                object,
                index: times.frame,
                mask,
                objectness: results.objectness,
                predicted_iou: results.predicted_iou,
                times,
                mask_at,
            };
            take(frame, pixels).map_err(|error| {
                refused = Some(error);
                anyhow::anyhow!("the frame was not taken")
            })
        };
        let ran = pipeline::run(&mut self.pipeline, &plan, &mut receive);
        self.note_reserved();
        let pool = self.pipeline.gpu().pool().usage();
        log::debug!("graphs: {:?}; device memory: {}", self.pipeline.replay(), pool.in_words());
        if let Some(error) = refused {
            return Err(error);
        }
        match ran {
            Ok(waited) => {
                passes.iter_mut().for_each(|pass| pass.waited = waited);
                Ok(passes)
            }
            Err(PassError::Clip(error)) => Err(ObjectError::Clip(error)),
            Err(PassError::Inference { frame, error }) => Err(ObjectError::inference(frame, error)),
            Err(PassError::Other(error)) => Err(ObjectError::Other(error)),
        }
    }
}

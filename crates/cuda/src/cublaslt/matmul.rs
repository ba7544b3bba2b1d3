/*!
A matmul of one shape: its descriptors in cuBLASLt, its algorithms, and its launch.

cuBLASLt stores matrices by columns. Consecutive rows are its columns, so `out[m, n]` is its matrix
of `n` by `m`. Its first operand is the weight `[n, k]`, a matrix of `k` by `n` that is taken
transposed. Its second is the tokens `[m, k]`, of `k` by `m`. The bias has one number for each row
of its output, hence for each column of ours.
*/

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::error::CublasLtError;
use super::library::{CublasLt, Object, check, failed};
use super::shape::MatmulShape;
use super::sys::{self, Heuristic, Status};
use crate::owned::Owned;
use crate::{Element, Stream, View};

/// Device addresses of operands are multiples of this, bytes: cuBLASLt's heuristics assume it, and
/// a [`View`] of an allocation of its own satisfies it.
pub const ALIGNMENT: usize = 256;

/// Algorithms requested of the heuristics.
const CANDIDATES: usize = 16;

/// The largest workspace of an algorithm, bytes, by NVIDIA's guide to cuBLAS: more on Hopper, less
/// on earlier GPUs, of which a Jetson shares its memory with the host. One workspace serves all
/// matmuls of a stream.
fn most_workspace(sm: u32) -> u64 {
    if sm >= 90 { 32 << 20 } else { 4 << 20 }
}

/// A matmul of one shape, for any operands: layers of equal sizes share it. Free to share.
///
/// Declared in the order of deletion: the descriptors, then the library.
#[derive(Debug)]
pub struct Matmul {
    /// Locked from the setting of the bias until the launch that reads it.
    descriptor: Mutex<Object>,
    weight: Object,
    tokens: Object,
    out: Object,
    candidates: Vec<Heuristic>,
    chosen: AtomicUsize,
    shape: MatmulShape,
    lt: CublasLt,
}

impl Matmul {
    /// Requests algorithms and chooses the first. It holds no device memory.
    ///
    /// # Errors
    /// A size of 0 or beyond 2³¹, or cuBLASLt's refusal: no algorithm for these sizes on this GPU.
    pub fn new(lt: &CublasLt, shape: MatmulShape) -> Result<Self, CublasLtError> {
        let (Some(m), Some(n), Some(k)) = (size(shape.m), size(shape.n), size(shape.k)) else {
            return Err(CublasLtError::Shape { shape });
        };
        let (call, output) = (lt.library().functions(), shape.data_type());
        let what = |doing: &str| format!("{doing} of a matmul of {shape}");
        // SAFETY: the functions belong together; a descriptor uses no memory of the caller.
        let mut descriptor = unsafe {
            let refused = |status| failed(lt.library(), status, what("create a descriptor"));
            Owned::new(lt.gpu(), call.desc_destroy, refused, |to| {
                (call.desc_create)(to, sys::COMPUTE_32F, sys::R_32F)
            })
        }?;
        let layout = |kind: c_int, (rows, columns): (u32, u32)| {
            // Columns are contiguous.
            let (rows, columns, step) = (u64::from(rows), u64::from(columns), i64::from(rows));
            let refused = |status| failed(lt.library(), status, what("create a layout"));
            // SAFETY: as above.
            unsafe {
                Owned::new(lt.gpu(), call.layout_destroy, refused, |to| {
                    (call.layout_create)(to, kind, rows, columns, step)
                })
            }
        };
        let weight = layout(sys::R_16F, (k, n))?;
        let tokens = layout(sys::R_16F, (k, m))?;
        let out = layout(output, (n, m))?;
        // SAFETY: the attribute is one of a descriptor and takes an int32_t.
        let status = unsafe { descriptor.set(call.desc_set, sys::DESC_TRANSA, sys::OP_T) };
        check(lt.library(), status, || what("transpose the weights"))?;
        // SAFETY: the attribute is one of a descriptor and takes a uint32_t.
        let status =
            unsafe { descriptor.set(call.desc_set, sys::DESC_EPILOGUE, sys::EPILOGUE_BIAS) };
        check(lt.library(), status, || what("add the bias"))?;
        let mut made = Self {
            descriptor: Mutex::new(descriptor),
            weight,
            tokens,
            out,
            candidates: Vec::new(),
            chosen: AtomicUsize::new(0),
            shape,
            lt: lt.clone(),
        };
        made.candidates = made.ask()?;
        Ok(made)
    }

    /// The algorithms that cuBLASLt names, best first.
    fn ask(&self) -> Result<Vec<Heuristic>, CublasLtError> {
        let (lt, shape) = (&self.lt, self.shape);
        let (library, call) = (lt.library(), lt.library().functions());
        let what = |doing: &str| format!("{doing} of a matmul of {shape}");
        // SAFETY: the functions belong together; a preference uses no memory of the caller.
        let mut preference = unsafe {
            let refused = |status| failed(library, status, what("create a preference"));
            Owned::new(lt.gpu(), call.preference_destroy, refused, |to| {
                (call.preference_create)(to)
            })
        }?;
        let most = most_workspace(lt.gpu().facts().sm);
        // SAFETY: the attribute is one of a preference and takes a uint64_t.
        let status =
            unsafe { preference.set(call.preference_set, sys::PREF_MAX_WORKSPACE_BYTES, most) };
        check(library, status, || what("limit the workspace"))?;
        // Partial sums are added in f32 and in a fixed order, or there are none: the other schemes
        // round them to the output's type, or add to the output in place.
        let mask = sys::REDUCTION_COMPUTE_TYPE;
        // SAFETY: the attribute is one of a preference and takes a uint32_t.
        let status =
            unsafe { preference.set(call.preference_set, sys::PREF_REDUCTION_SCHEME_MASK, mask) };
        check(library, status, || what("limit the reduction schemes"))?;
        // Heuristics may depend on the bias's alignment: this one is aligned as all will be.
        let bias = View::new(lt.gpu(), shape.n * shape.output.bytes())?;
        let mut descriptor = self.descriptor.lock().unwrap_or_else(PoisonError::into_inner);
        self.set_bias(&mut descriptor, &bias)?;
        let mut found = [Heuristic::NONE; CANDIDATES];
        let mut count: c_int = 0;
        // SAFETY: handle, descriptors and preference live; there is room for as many results as are
        // asked for.
        let status = unsafe {
            (call.heuristic)(
                lt.handle(),
                descriptor.get(),
                self.weight.get(),
                self.tokens.get(),
                self.out.get(),
                self.out.get(),
                preference.get(),
                CANDIDATES as c_int,
                found.as_mut_ptr(),
                &mut count,
            )
        };
        drop(descriptor);
        check(library, status, || what("name an algorithm"))?;
        let count = usize::try_from(count).unwrap_or_default().min(CANDIDATES);
        let usable =
            |found: &&Heuristic| found.state == Status::SUCCESS && found.workspace as u64 <= most;
        let usable: Vec<Heuristic> = found[..count].iter().filter(usable).copied().collect();
        match usable.is_empty() {
            true => Err(failed(library, Status::NOT_SUPPORTED, what("name an algorithm"))),
            false => Ok(usable),
        }
    }

    fn set_bias(&self, descriptor: &mut Object, bias: &View) -> Result<(), CublasLtError> {
        let library = self.lt.library();
        let address: *const c_void = bias.address();
        // SAFETY: the attribute is one of a descriptor and takes an address, which is only stored.
        let status = unsafe {
            descriptor.set(library.functions().desc_set, sys::DESC_BIAS_POINTER, address)
        };
        check(library, status, || format!("set the bias of a matmul of {}", self.shape))
    }

    /// Its sizes.
    pub fn shape(&self) -> MatmulShape {
        self.shape
    }

    /// Bytes of workspace that [`Self::enqueue`] needs; consecutive matmuls of one stream can share
    /// the largest.
    pub fn workspace_bytes(&self) -> usize {
        self.candidates[self.chosen()].workspace
    }

    /// Bytes of workspace that any of the algorithms needs.
    pub fn most_workspace_bytes(&self) -> usize {
        self.candidates.iter().map(|candidate| candidate.workspace).max().unwrap_or(0)
    }

    /// The length of cuBLASLt's list of algorithms, 1 to 16.
    pub fn candidates(&self) -> usize {
        self.candidates.len()
    }

    /// The chosen algorithm's index in cuBLASLt's list.
    pub fn chosen(&self) -> usize {
        self.chosen.load(Ordering::Relaxed)
    }

    /// Chooses another algorithm for later launches; 0 is cuBLASLt's first, which [`Self::new`]
    /// chooses. It may need another workspace and rounds differently.
    ///
    /// # Errors
    /// No algorithm has this number.
    pub fn choose(&self, at: usize) -> Result<(), CublasLtError> {
        let (candidates, shape) = (self.candidates.len(), self.shape);
        if at >= candidates {
            return Err(CublasLtError::Candidate { wanted: at, candidates, shape });
        }
        self.chosen.store(at, Ordering::Relaxed);
        Ok(())
    }

    /// Enqueues `out = a weightᵀ + bias`, plus the previous `out` if the shape has a residual;
    /// returns before it is done.
    ///
    /// `a` `[m, k]` and `weight` `[n, k]` are f16, `bias` `[n]` and `out` `[m, n]` of the output's
    /// type, sums f32. `workspace` has at least [`Self::workspace_bytes`]; nothing else may use it
    /// meanwhile. All addresses are multiples of [`ALIGNMENT`].
    ///
    /// It allocates nothing and may be captured into a CUDA graph, but not the first launch:
    /// cuBLASLt loads a kernel on first use. The owner of the graph keeps this value, whose handle
    /// may own memory that the kernels read.
    ///
    /// # Errors
    /// Views of another size or at odd addresses, or cuBLASLt's refusal.
    pub fn enqueue(
        &self,
        a: &View,
        weight: &View,
        bias: &View,
        out: &View,
        workspace: &View,
        stream: &Stream,
    ) -> Result<(), CublasLtError> {
        let MatmulShape { m, n, k, output, residual } = self.shape;
        let half = Element::F16.bytes();
        self.fits("'a'", a, half * m * k, true)?;
        self.fits("'weight'", weight, half * n * k, true)?;
        self.fits("'bias'", bias, output.bytes() * n, true)?;
        self.fits("'out'", out, output.bytes() * m * n, true)?;
        let bytes = self.workspace_bytes();
        let room = match bytes {
            0 => std::ptr::null_mut(),
            _ => {
                self.fits("the workspace", workspace, bytes, false)?;
                workspace.address()
            }
        };
        let alpha = 1.0_f32;
        let beta = if residual { 1.0_f32 } else { 0.0 };
        let (lt, algorithm) = (&self.lt, &self.candidates[self.chosen()].algorithm);
        lt.gpu().bind()?;
        let mut descriptor = self.descriptor.lock().unwrap_or_else(PoisonError::into_inner);
        self.set_bias(&mut descriptor, bias)?;
        // SAFETY: handle, descriptor and layouts live, and the lock keeps others from changing the
        // descriptor. The call reads it and the scales, numbers on the host, before it returns. The
        // algorithm belongs to these layouts. Each operand and the workspace lie in their views, as
        // checked above, whose memory is freed only after enqueued work. `out` is read and written
        // in place, as C and D of one layout may be.
        let status = unsafe {
            (lt.library().functions().matmul)(
                lt.handle(),
                descriptor.get(),
                (&raw const alpha).cast(),
                weight.address(),
                self.weight.get(),
                a.address(),
                self.tokens.get(),
                (&raw const beta).cast(),
                out.address(),
                self.out.get(),
                out.address(),
                self.out.get(),
                algorithm,
                room,
                bytes,
                stream.raw(),
            )
        };
        drop(descriptor);
        check(lt.library(), status, || format!("enqueue a matmul of {}", self.shape))
    }

    /// Checks a view as an operand of `bytes` bytes, or of at least so many.
    fn fits(
        &self,
        what: &'static str,
        view: &View,
        bytes: usize,
        exactly: bool,
    ) -> Result<(), CublasLtError> {
        let (found, address) = (view.len(), view.address() as usize);
        let fits = if exactly { found == bytes } else { found >= bytes };
        if fits && address.is_multiple_of(ALIGNMENT) {
            return Ok(());
        }
        let least = if exactly { "" } else { "at least " };
        Err(CublasLtError::Operand {
            what,
            shape: self.shape,
            found,
            address,
            expected: format!("{least}{bytes} bytes"),
            alignment: ALIGNMENT,
        })
    }
}

/// A size in the range of cuBLASLt's kernels: from 1, in 31 bits.
fn size(value: usize) -> Option<u32> {
    u32::try_from(value).ok().filter(|value| (1..=i32::MAX as u32).contains(value))
}

/*!
One shape of product: what cuBLASLt is told of it, and its launch.

cuBLASLt counts by columns. Rows that lie one behind the other are its columns, so `out[rows, columns]` is its matrix of `columns`
by `rows`: the weights `[columns, depth]` are its first operand, a matrix of `depth` by `columns` that is taken transposed, and the
tokens `[rows, depth]` its second, of `depth` by `rows`. The bias, one number for each of its rows, is then one for each of our
columns.
*/

use std::ffi::{c_int, c_void};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::error::CublasLtError;
use super::library::CublasLt;
use super::owned::Owned;
use super::sys::{self, Heuristic, Status};
use crate::Element;
use crate::{Stream, View};

/// Device addresses of operands are multiples of this: cuBLASLt's heuristics take it for granted, and a [`View`] of its own memory
/// has it.
pub const ALIGNMENT: usize = 256;

/// Algorithms that are asked for.
const CANDIDATES: usize = 16;

/// Workspace that an algorithm may need, bytes: what NVIDIA's guide to cuBLAS recommends for Hopper, whose algorithms want more, and
/// for what came before, where a Jetson shares its memory with everything else. One workspace serves all products of a stream.
fn most_workspace(sm: u32) -> u64 {
    if sm >= 90 { 32 << 20 } else { 4 << 20 }
}

/// Sizes of a product `out[rows, columns] = a[rows, depth] weight[columns, depth]ᵀ + bias[columns]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProductShape {
    /// Rows of `a` and `out`: tokens.
    pub rows: usize,
    /// Columns of `out`.
    pub columns: usize,
    /// Columns of `a` and `weight`: terms of each sum.
    pub depth: usize,
    /// Type of `out` and `bias`; `a` and `weight` are fp16.
    pub output: Element,
    /// What `out` holds before is added.
    pub residual: bool,
}

impl ProductShape {
    fn data_type(&self) -> c_int {
        match self.output {
            Element::F32 => sys::R_32F,
            Element::F16 => sys::R_16F,
        }
    }

    /// Additions and multiplications.
    pub fn operations(&self) -> f64 {
        2.0 * self.rows as f64 * self.columns as f64 * self.depth as f64
    }
}

/// "4096 x 384 x 1536 (rows x columns x depth) in f32, added to".
impl fmt::Display for ProductShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, columns, depth, output, residual } = self;
        let output = if *output == Element::F32 { "f32" } else { "f16" };
        let added = if *residual { ", added to" } else { "" };
        write!(f, "{rows} x {columns} x {depth} (rows x columns x depth) in {output}{added}")
    }
}

/// A product of one shape, for any operands: many blocks of a trunk share it. Free to share.
///
/// Declared in the order of deletion: what describes the product, then the library.
#[derive(Debug)]
pub struct Product {
    /// Locked from the setting of the bias until the launch that reads it.
    descriptor: Mutex<Owned>,
    weight: Owned,
    tokens: Owned,
    out: Owned,
    candidates: Vec<Heuristic>,
    chosen: AtomicUsize,
    shape: ProductShape,
    lt: CublasLt,
}

impl Product {
    /// Asks for algorithms and takes the first. What it needs for that is gone when it returns; memory of its own it has none.
    ///
    /// # Errors
    /// A size of 0 or beyond 2³¹, or cuBLASLt's refusal: no algorithm for these sizes on this GPU.
    pub fn new(lt: &CublasLt, shape: ProductShape) -> Result<Self, CublasLtError> {
        let ProductShape { rows, columns, depth, .. } = shape;
        let (Some(m), Some(n), Some(k)) = (size(columns), size(rows), size(depth)) else {
            return Err(CublasLtError::Shape { shape });
        };
        let (call, output) = (lt.library().functions(), shape.data_type());
        let what = |doing: &str| format!("{doing} of a product of {shape}");
        // SAFETY: the functions belong together; a descriptor uses nothing of ours.
        let mut descriptor = unsafe {
            Owned::new(
                lt.gpu(),
                lt.library(),
                &what("make a descriptor"),
                call.desc_destroy,
                |to| (call.desc_create)(to, sys::COMPUTE_32F, sys::R_32F),
            )
        }?;
        let layout = |kind: c_int, (rows, columns): (u32, u32)| {
            // Columns lie one behind the other.
            let (rows, columns, step) = (u64::from(rows), u64::from(columns), i64::from(rows));
            let what = what("make a layout");
            // SAFETY: as above.
            unsafe {
                Owned::new(lt.gpu(), lt.library(), &what, call.layout_destroy, |to| {
                    (call.layout_create)(to, kind, rows, columns, step)
                })
            }
        };
        let weight = layout(sys::R_16F, (k, m))?;
        let tokens = layout(sys::R_16F, (k, n))?;
        let out = layout(output, (m, n))?;
        // SAFETY: the attribute is one of a product's and takes an int32_t.
        let status = unsafe { descriptor.set(call.desc_set, sys::DESC_TRANSA, sys::OP_T) };
        lt.library().tried(status, || what("transpose the weights"))?;
        // SAFETY: the attribute is one of a product's and takes a uint32_t.
        let status =
            unsafe { descriptor.set(call.desc_set, sys::DESC_EPILOGUE, sys::EPILOGUE_BIAS) };
        lt.library().tried(status, || what("add the bias"))?;
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
        let what = |doing: &str| format!("{doing} of a product of {shape}");
        // SAFETY: the functions belong together; a preference uses nothing of ours.
        let mut preference = unsafe {
            let what = what("make a preference");
            Owned::new(lt.gpu(), library, &what, call.preference_destroy, |to| {
                (call.preference_create)(to)
            })
        }?;
        let most = most_workspace(lt.gpu().facts().sm);
        // SAFETY: the attribute is one of a preference's and takes a uint64_t.
        let status =
            unsafe { preference.set(call.preference_set, sys::PREF_MAX_WORKSPACE_BYTES, most) };
        library.tried(status, || what("limit the workspace"))?;
        // Parts of a sum are put together in f32 and in a fixed order, or there are none: the other schemes round parts to the
        // output's type, or take turns at the output itself.
        let mask = sys::REDUCTION_COMPUTE_TYPE;
        // SAFETY: the attribute is one of a preference's and takes a uint32_t.
        let status =
            unsafe { preference.set(call.preference_set, sys::PREF_REDUCTION_SCHEME_MASK, mask) };
        library.tried(status, || what("limit the ways to put parts together"))?;
        // Algorithms may be chosen by the bias's alignment: one that lies as all will.
        let bias = View::new(lt.gpu(), shape.columns * shape.output.bytes())?;
        let mut descriptor = self.descriptor.lock().unwrap_or_else(PoisonError::into_inner);
        self.set_bias(&mut descriptor, &bias)?;
        let mut found = [Heuristic::NONE; CANDIDATES];
        let mut count: c_int = 0;
        // SAFETY: handle, descriptors and preference live; there is room for as many results as are asked for.
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
        library.tried(status, || what("name an algorithm"))?;
        let count = usize::try_from(count).unwrap_or_default().min(CANDIDATES);
        let usable =
            |found: &&Heuristic| found.state == Status::SUCCESS && found.workspace as u64 <= most;
        let usable: Vec<Heuristic> = found[..count].iter().filter(usable).copied().collect();
        match usable.is_empty() {
            true => Err(library.failed(Status::NOT_SUPPORTED, what("name an algorithm"))),
            false => Ok(usable),
        }
    }

    fn set_bias(&self, descriptor: &mut Owned, bias: &View) -> Result<(), CublasLtError> {
        let library = self.lt.library();
        let address: *const c_void = bias.address();
        // SAFETY: the attribute is one of a product's and takes an address; it is only kept here, what reads it comes later.
        let status = unsafe {
            descriptor.set(library.functions().desc_set, sys::DESC_BIAS_POINTER, address)
        };
        library.tried(status, || format!("take the bias of a product of {}", self.shape))
    }

    /// Its sizes.
    pub fn shape(&self) -> ProductShape {
        self.shape
    }

    /// Bytes of workspace that [`Self::enqueue`] needs; products that follow each other on one stream can share the largest.
    pub fn workspace_bytes(&self) -> usize {
        self.candidates[self.chosen()].workspace
    }

    /// Bytes of workspace that any of the algorithms needs.
    pub fn most_workspace_bytes(&self) -> usize {
        self.candidates.iter().map(|candidate| candidate.workspace).max().unwrap_or(0)
    }

    /// How many algorithms cuBLASLt named, at most 16 and at least one.
    pub fn candidates(&self) -> usize {
        self.candidates.len()
    }

    /// The algorithm's place among those that cuBLASLt named.
    pub fn chosen(&self) -> usize {
        self.chosen.load(Ordering::Relaxed)
    }

    /// Takes another algorithm, for what is enqueued from then on: 0 for the one that cuBLASLt holds for the best, which [`Self::new`] takes. It may need another
    /// workspace, and gives other bits.
    ///
    /// # Errors
    /// There are not so many.
    pub fn choose(&self, at: usize) -> Result<(), CublasLtError> {
        let (candidates, shape) = (self.candidates.len(), self.shape);
        if at >= candidates {
            return Err(CublasLtError::Candidate { wanted: at, candidates, shape });
        }
        self.chosen.store(at, Ordering::Relaxed);
        Ok(())
    }

    /// Enqueues `out = a weightᵀ + bias`, and what `out` held, where the shape says so; returns before it is done. `a` `[rows, depth]`
    /// and `weight` `[columns, depth]` are fp16; `bias` `[columns]` and `out` `[rows, columns]` of the output's type; all sums are
    /// f32. Of `workspace`, which may be empty where [`Self::workspace_bytes`] is 0, nothing is expected and nothing is left; work
    /// that uses it must not run at the same time. All start at multiples of [`ALIGNMENT`].
    ///
    /// No allocation of ours; may be recorded in a CUDA graph, but not the first time: cuBLASLt brings a kernel to the device on first
    /// use. Whoever owns the graph keeps the product, as its handle may own what the kernels read.
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
        let ProductShape { rows, columns, depth, output, residual } = self.shape;
        let half = Element::F16.bytes();
        self.check("'a'", a, half * rows * depth, true)?;
        self.check("'weight'", weight, half * columns * depth, true)?;
        self.check("'bias'", bias, output.bytes() * columns, true)?;
        self.check("'out'", out, output.bytes() * rows * columns, true)?;
        let bytes = self.workspace_bytes();
        let room = match bytes {
            0 => std::ptr::null_mut(),
            _ => {
                self.check("the workspace", workspace, bytes, false)?;
                workspace.address()
            }
        };
        let alpha = 1.0_f32;
        let beta = if residual { 1.0_f32 } else { 0.0 };
        let (lt, algorithm) = (&self.lt, &self.candidates[self.chosen()].algorithm);
        lt.gpu().bind()?;
        let mut descriptor = self.descriptor.lock().unwrap_or_else(PoisonError::into_inner);
        self.set_bias(&mut descriptor, bias)?;
        // SAFETY: handle, descriptor and layouts live, and nobody else changes the descriptor while it is locked: what the launch
        // needs of it and of the scales, which are numbers on the host, is read before the call returns. The algorithm was named for
        // these very layouts. Each operand lies in its view, as measured above, whose memory is given back only behind work that is
        // enqueued; so does the workspace. `out` is read and written in place, as C and D of one layout may be.
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
        lt.library().tried(status, || format!("enqueue a product of {}", self.shape))
    }

    /// Whether a view can be an operand of so many bytes, no more where `exactly`.
    fn check(
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

/// A size as cuBLASLt's kernels count: from 1, in 31 bits.
fn size(value: usize) -> Option<u32> {
    u32::try_from(value).ok().filter(|value| (1..=i32::MAX as u32).contains(value))
}

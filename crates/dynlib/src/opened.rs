/*!
An opened library of the CUDA toolkit: its functions, file and versions.

The CUDA runtime inside such a library keeps threads and registries, so it is never closed.
*/

use std::ffi::c_int;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Loaded, Missed, Wanted, file_of, first, load, major, symbol, too_new};

/// An opened library with its table of functions `F`. Cheap to clone.
pub struct Opened<F> {
    inner: Arc<Inner<F>>,
}

struct Inner<F> {
    functions: F,
    title: &'static str,
    path: PathBuf,
    version: [c_int; 3],
    cuda: c_int,
}

/// The functions of a loaded library, and what it reports about itself.
pub struct Probed<F> {
    /// Its functions, all of which were found.
    pub functions: F,
    /// Its release: major, minor, patch.
    pub version: [c_int; 3],
    /// The major release of CUDA that it was built for.
    pub cuda: c_int,
    /// Any of its symbols: the loader tells its file by that.
    pub symbol: &'static str,
}

impl<F> Opened<F> {
    /// Searches for `wanted` and opens the first library that `probe` accepts.
    ///
    /// `driver_cuda` is the driver's CUDA release ("13.0"), if known: a library built for a later
    /// major release cannot run and is passed over.
    ///
    /// # Errors
    /// [`Missed::NotFound`] with the places, [`Missed::Unusable`] for a library that the user
    /// named.
    pub fn find(
        wanted: &'static Wanted,
        driver_cuda: Option<&str>,
        probe: impl Fn(&'static Loaded) -> Result<Probed<F>, String>,
    ) -> Result<Self, Missed> {
        let newest = driver_cuda.and_then(major);
        first(wanted, |path| Self::open(wanted.title, path, newest, &probe))
    }

    /// Opens the library at `path`, or the one that the loader finds by that bare name.
    ///
    /// # Errors
    /// The loader's message, that of `probe`, or that of [`too_new`].
    pub fn open(
        title: &'static str,
        path: &Path,
        newest_cuda: Option<c_int>,
        probe: impl Fn(&'static Loaded) -> Result<Probed<F>, String>,
    ) -> Result<Self, String> {
        let loaded = load(path)?;
        let Probed { functions, version, cuda, symbol: name } = probe(loaded)?;
        too_new(cuda, newest_cuda)?;
        let bare = path.components().count() == 1;
        let file = if bare { file_of(symbol(loaded, name) as usize) } else { None };
        let path = file.unwrap_or_else(|| path.to_owned());
        log::debug!("opened {title} {version:?} at {}", path.display());
        Ok(Self { inner: Arc::new(Inner { functions, title, path, version, cuda }) })
    }

    /// Its functions.
    pub fn functions(&self) -> &F {
        &self.inner.functions
    }

    /// The opened file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }
}

impl<F> Clone for Opened<F> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

/// "nvJPEG 12.4.0 (for CUDA 12)".
impl<F> fmt::Display for Opened<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { title, version: [major, minor, patch], cuda, .. } = &*self.inner;
        write!(f, "{title} {major}.{minor}.{patch} (for CUDA {cuda})")
    }
}

impl<F> fmt::Debug for Opened<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} at {}", self.inner.path.display())
    }
}

/// Declares a table of C functions, each with its symbol: `functions! { /// Docs. pub struct Name;
/// … }`.
///
/// The table has a function `of`, which looks all symbols up, and the constant `SYMBOLS`.
///
/// ```
/// dynlib::functions! {
///     /// Two functions of the C library.
///     pub struct Functions;
///     /// The absolute value.
///     absolute = "abs"(i32) -> i32;
///     /// The process number.
///     process = "getpid"() -> i32;
/// }
///
/// let library = dynlib::load("libc.so.6".as_ref())?;
/// // SAFETY: these are the C library's functions, with its types.
/// let functions = unsafe { Functions::of(library) }?;
/// // SAFETY: `abs` has no precondition for this number.
/// assert_eq!(unsafe { (functions.absolute)(-3) }, 3);
/// # Ok::<(), String>(())
/// ```
#[macro_export]
macro_rules! functions {
    ($(#[$about:meta])* $visibility:vis struct $table:ident;
     $($(#[$doc:meta])* $field:ident = $symbol:literal($($argument:ty),* $(,)?) -> $answer:ty;)*) => {
        $(#[$about])*
        $visibility struct $table {
            $($(#[$doc])* pub $field: unsafe extern "C" fn($($argument),*) -> $answer,)*
        }

        impl $table {
            /// Looks all functions up.
            ///
            /// # Errors
            /// The first symbol that is missing.
            ///
            /// # Safety
            /// Under each of these symbols the library has a function of the declared type.
            pub unsafe fn of(library: &'static $crate::Loaded) -> Result<Self, &'static str> {
                Ok(Self {
                    $(
                        // SAFETY: the caller answers for the type; the library is never closed.
                        $field: unsafe {
                            *library
                                .get::<unsafe extern "C" fn($($argument),*) -> $answer>($symbol.as_bytes())
                                .map_err(|_| $symbol)?
                        },
                    )*
                })
            }

            /// The symbols, in the order of declaration.
            #[allow(dead_code)]
            pub const SYMBOLS: &'static [&'static str] = &[$($symbol),*];
        }
    };
}

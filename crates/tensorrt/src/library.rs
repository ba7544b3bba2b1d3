/*!
Opens TensorRT's libraries and decides by the version that they report how their objects are called.

An opened library is never closed: TensorRT keeps threads, a global logger and registries that
outlive its objects.
*/

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use dynlib::{Candidate, Loaded, file_of, load, symbol};

use super::error::{Error, Result};
use super::find::{Naming, parser_names, parser_of, search};
use super::loader_errors::needed_by;
use super::log::{Log, LogListener, on_log, on_report};
use super::sys;
use super::version::{Family, Version};

/// Libraries opened so far, by the address of their entry point. TensorRT has one logger in a
/// process, the first that it is given: a file that is opened again must log to the same place.
static OPENED: Mutex<Vec<(usize, Library)>> = Mutex::new(Vec::new());

/// An opened TensorRT. Cheap to clone; a library that is opened again is the same one.
#[derive(Clone)]
pub struct Library {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    /// Leaked, as is the logger inside: TensorRT keeps the first logger it sees.
    pub(super) api: NonNull<sys::trtdl_api>,
    pub(super) log: &'static Log,
    pub(super) recorder: *mut c_void,
    path: PathBuf,
    version: Version,
    family: Family,
    parser: std::result::Result<PathBuf, String>,
    has_builder: bool,
}

// SAFETY: the api is written once, before the Library exists; the shim only reads it. The recorder
// and the logger are thread-safe, as TensorRT demands of them: they lead to Log, which locks.
unsafe impl Send for Inner {}
// SAFETY: as above: shared access only reads.
unsafe impl Sync for Inner {}

impl Library {
    /// Opens the library `explicit` (a directory or a file), else that of the variable
    /// `TENSORRT_LIB`, else the first on the loader's path or in pip's site-packages.
    ///
    /// # Errors
    /// [`Error::NotFound`] with the places, [`Error::Open`] for a named file that is no TensorRT,
    /// and [`Error::UnknownVersion`].
    pub fn open(explicit: Option<&Path>) -> Result<Self> {
        Self::open_as(Naming::DEFAULT, explicit)
    }

    /// [`Library::open`] for a program with a variable and a flag of its own.
    ///
    /// # Errors
    /// Those of [`Library::open`].
    pub fn open_as(naming: Naming, explicit: Option<&Path>) -> Result<Self> {
        let (candidates, mut searched) = search(naming, explicit);
        for candidate in candidates {
            match load(&candidate.library) {
                Ok(loaded) => return Self::once(naming, &candidate, loaded),
                Err(why) if candidate.named || candidate.library.is_absolute() => {
                    return Err(Error::Open { path: candidate.library, why });
                }
                // It exists but does not open: its owner learns why if nothing else is found.
                Err(why) if !why.starts_with(&*candidate.library.to_string_lossy()) => {
                    searched.places.push(format!("{} ({why})", candidate.library.display()));
                }
                Err(_) => {}
            }
        }
        Err(Error::NotFound(searched))
    }

    fn once(naming: Naming, candidate: &Candidate, loaded: &Loaded) -> Result<Self> {
        let address = symbol(loaded, "getInferLibVersion") as usize;
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, library)) = opened.iter().find(|(known, _)| *known == address) {
            return Ok(library.clone());
        }
        let library = Self::start(naming, candidate, loaded)?;
        opened.push((address, library.clone()));
        Ok(library)
    }

    fn start(naming: Naming, candidate: &Candidate, loaded: &Loaded) -> Result<Self> {
        let path = real_path(loaded, &candidate.library);
        let missing =
            |name: &str| Error::Open { path: path.clone(), why: format!("it has no {name}") };
        let raw = version_number(loaded, "getInferLibVersion")
            .ok_or_else(|| missing("getInferLibVersion"))?;
        let version = Version::from_raw(raw);
        let Some(family) = version.family() else {
            return Err(Error::UnknownVersion { path, version, raw, naming });
        };
        if version.is_untried() {
            log::warn!("{version} is newer than any release that was compared with this program");
        }
        let create_runtime = symbol(loaded, "createInferRuntime_INTERNAL");
        if create_runtime.is_null() {
            return Err(missing("createInferRuntime_INTERNAL"));
        }
        let parser = open_parser(&path, &version);
        let entry = sys::trtdl_entry_points {
            create_builder: symbol(loaded, "createInferBuilder_INTERNAL"),
            create_runtime,
            create_parser: parser.as_ref().map_or(std::ptr::null_mut(), |parser| parser.create),
            version: raw,
            parser_version: parser.as_ref().map_or(raw, |parser| parser.version.unwrap_or(raw)),
            family: family as i32,
            minor: version.minor,
        };
        let log: &'static Log = Box::leak(Box::default());
        let user = std::ptr::from_ref(log).cast_mut().cast::<c_void>();
        // SAFETY: `entry` is a complete value that the shim copies; `on_log` takes a Log, which is
        // what `user` is.
        let api = unsafe { sys::trtdl_api_new(&entry, Some(on_log), user) };
        let api = NonNull::new(api).ok_or_else(|| missing("a layout in this program's tables"))?;
        // SAFETY: the api was just made; `on_report` takes a Log.
        let recorder = unsafe { sys::trtdl_recorder_new(api.as_ptr(), Some(on_report), user) };
        log::debug!("opened {version} at {}", path.display());
        let inner = Inner {
            api,
            log,
            recorder,
            path,
            version,
            family,
            parser: parser.map(|parser| parser.path),
            has_builder: !entry.create_builder.is_null(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The release that was opened.
    pub fn version(&self) -> Version {
        self.inner.version
    }

    /// Its layout of interfaces.
    pub fn family(&self) -> Family {
        self.inner.family
    }

    /// The opened file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// The ONNX parser's file.
    ///
    /// # Errors
    /// [`Error::ParserMissing`] with the loader's message and the package that has it;
    /// [`Error::ParserNeeds`] for a parser that lacks a library such as cuDNN.
    pub fn parser_path(&self) -> Result<&Path> {
        self.inner.parser.as_deref().map_err(|why| {
            let rtx = self.inner.version.rtx;
            if let Some(needed) = needed_by(why, parser_of(rtx)) {
                let (path, needed) = (self.inner.path.clone(), needed.to_owned());
                return Error::ParserNeeds {
                    path,
                    version: self.inner.version,
                    name: parser_of(rtx),
                    needed,
                };
            }
            Error::ParserMissing {
                path: self.inner.path.clone(),
                version: self.inner.version,
                name: parser_of(rtx),
                why: why.clone(),
                package: if rtx {
                    "the whole package (pip install tensorrt-rtx-cu13-libs)"
                } else {
                    "libnvonnxparsers (apt), or the whole pip package"
                },
            }
        })
    }

    /// Whether it can build engines; lean runtimes cannot.
    pub fn has_builder(&self) -> bool {
        self.inner.has_builder
    }

    /// Calls `listener` for every line that TensorRT logs, from TensorRT's threads; none stops
    /// that.
    ///
    /// The listener must not call TensorRT.
    pub fn on_log(&self, listener: Option<LogListener>) {
        self.inner.log.listen(listener);
    }
}

struct Parser {
    path: PathBuf,
    create: *mut c_void,
    version: Option<i32>,
}

fn open_parser(library: &Path, version: &Version) -> std::result::Result<Parser, String> {
    let mut why = Vec::new();
    for name in parser_names(library, version.major) {
        let loaded = match load(&name) {
            Ok(loaded) => loaded,
            Err(error) => {
                why.push(error);
                continue;
            }
        };
        let create = symbol(loaded, "createNvOnnxParser_INTERNAL");
        if create.is_null() {
            why.push(format!("{} has no createNvOnnxParser_INTERNAL", name.display()));
            continue;
        }
        let version = version_number(loaded, "getNvOnnxParserVersion");
        return Ok(Parser { path: real_path(loaded, &name), create, version });
    }
    why.dedup();
    Err(why.join("; "))
}

fn version_number(loaded: &Loaded, name: &str) -> Option<i32> {
    // SAFETY: `int32_t name(void)` in every release.
    let version = unsafe { loaded.get::<unsafe extern "C" fn() -> i32>(name.as_bytes()) }.ok()?;
    // SAFETY: the function has no precondition.
    Some(unsafe { version() })
}

/// The file of a loaded library, even if the loader found it by a bare name.
fn real_path(loaded: &Loaded, name: &Path) -> PathBuf {
    if name.components().count() > 1 {
        return name.to_owned();
    }
    let address = ["getInferLibVersion", "createNvOnnxParser_INTERNAL"]
        .into_iter()
        .map(|name| symbol(loaded, name))
        .find(|address| !address.is_null());
    address.and_then(|address| file_of(address as usize)).unwrap_or_else(|| name.to_owned())
}

/*!
The program's side of NVTX: a profiler that the environment names is loaded, and ranges are handed
to it.

NVTX has no library of its own. A program carries the client side, which loads the tool that
`NVTX_INJECTION64_PATH` names (`nsys` sets it), calls its `InitializeInjectionNvtx2`, and lets it
fill tables of function pointers; without a tool every call does nothing. Tables, numbers and
layouts are those of version 3 (NVIDIA/NVTX, `nvtxTypes.h` and `nvToolsExt.h`). NVIDIA's crate
`nvtx` 2.0 is not used, because it generates its bindings with libclang while it is built, which a
fresh machine does not have.
*/

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use libloading::Library;

/// Names the tool's library.
const INJECTION: &str = "NVTX_INJECTION64_PATH";
/// The NVTX version that this client speaks.
const VERSION: u32 = 3;

/// Modules of the API in the order of their numbers (`NvtxCallbackModule`), with the entries of
/// each table: none, core, CUDA, OpenCL, CUDA runtime, core 2, synchronisation. Entry 0 of a table
/// is never used.
const ENTRIES: [u32; 7] = [0, 16, 9, 15, 7, 16, 7];
const MOST_ENTRIES: usize = 16;
/// The module with everything about domains.
const CORE2: usize = 5;
/// `NvtxCallbackIdCore2` of the calls that are made here.
const RANGE_PUSH: usize = 4;
const RANGE_POP: usize = 5;
const REGISTER_STRING: usize = 10;
const DOMAIN_CREATE: usize = 12;
/// `NvtxExportTableID`.
const CALLBACKS: u32 = 1;
const VERSION_INFO: u32 = 3;
/// `NVTX_MESSAGE_TYPE_REGISTERED`.
const REGISTERED: i32 = 3;

type Handle = *mut c_void;
type GetExportTable = extern "C" fn(u32) -> *const c_void;
type Initialize = unsafe extern "C" fn(GetExportTable) -> c_int;

/// What the tool has written: a function for each entry that it wants to hear of. It may change
/// them at any time, so they are read at each call.
static FUNCTIONS: [[AtomicPtr<c_void>; MOST_ENTRIES]; ENTRIES.len()] =
    [const { [const { AtomicPtr::new(null_mut()) }; MOST_ENTRIES] }; ENTRIES.len()];

/// Addresses of the entries of [`FUNCTIONS`], the form in which tools ask for them.
struct Tables([[*const AtomicPtr<c_void>; MOST_ENTRIES]; ENTRIES.len()]);

// SAFETY: the addresses are those of a static whose elements are atomic.
unsafe impl Sync for Tables {}

static TABLES: Tables = {
    let mut tables = [[null(); MOST_ENTRIES]; ENTRIES.len()];
    let mut module = 1;
    while module < ENTRIES.len() {
        let mut entry = 1;
        while entry < ENTRIES[module] as usize {
            tables[module][entry] = &raw const FUNCTIONS[module][entry];
            entry += 1;
        }
        module += 1;
    }
    Tables(tables)
};

#[repr(C)]
struct Callbacks {
    struct_size: usize,
    get_module_function_table:
        unsafe extern "C" fn(c_uint, *mut *const *const AtomicPtr<c_void>, *mut c_uint) -> c_int,
}

#[repr(C)]
struct VersionInfo {
    struct_size: usize,
    version: u32,
    reserved: u32,
    set_injection_version: extern "C" fn(u32),
}

static CALLBACK_TABLE: Callbacks = Callbacks {
    struct_size: size_of::<Callbacks>(),
    get_module_function_table: module_function_table,
};

static VERSION_TABLE: VersionInfo = VersionInfo {
    struct_size: size_of::<VersionInfo>(),
    version: VERSION,
    reserved: 0,
    set_injection_version: hear_version,
};

/// What NVTX does with the tool's version: nothing.
extern "C" fn hear_version(_version: u32) {}

extern "C" fn export_table(id: u32) -> *const c_void {
    match id {
        CALLBACKS => (&raw const CALLBACK_TABLE).cast(),
        VERSION_INFO => (&raw const VERSION_TABLE).cast(),
        _ => null(),
    }
}

/// Gives the table of a module; 0 where there is none.
///
/// # Safety
/// `table` and `size` are null or may be written to.
unsafe extern "C" fn module_function_table(
    module: c_uint,
    table: *mut *const *const AtomicPtr<c_void>,
    size: *mut c_uint,
) -> c_int {
    let module = module as usize;
    if module == 0 || module >= ENTRIES.len() {
        return 0;
    }
    if !table.is_null() {
        // SAFETY: the caller's promise.
        unsafe { table.write(TABLES.0[module].as_ptr()) };
    }
    if !size.is_null() {
        // SAFETY: the caller's promise.
        unsafe { size.write(ENTRIES[module]) };
    }
    1
}

/// `nvtxEventAttributes_v2`.
#[repr(C)]
struct Attributes {
    version: u16,
    size: u16,
    category: u32,
    color_type: i32,
    color: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: Handle,
}

/// A domain of a tool that listens.
#[derive(Debug)]
pub struct Domain {
    handle: Handle,
}

// SAFETY: the handle is the tool's, which takes calls from every thread, and nothing here changes.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

/// A string that the tool knows by a handle.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    handle: Handle,
}

// SAFETY: the handle is a number to everyone but the tool.
unsafe impl Send for Name {}
// SAFETY: as above.
unsafe impl Sync for Name {}

/// Ends its range when it is dropped; NVTX's stacks of ranges belong to a thread, so it stays on
/// its own.
#[derive(Debug)]
pub struct Pushed<'a> {
    domain: &'a Domain,
    not_send: PhantomData<*const ()>,
}

impl Domain {
    /// Makes a domain; `None` where no tool listens.
    pub fn open(name: &CStr) -> Option<Self> {
        if !tool_listens() {
            return None;
        }
        let create = function(DOMAIN_CREATE)?;
        // SAFETY: the tool has put `nvtxDomainCreateA` into this entry, which has this type.
        let create: unsafe extern "C" fn(*const c_char) -> Handle =
            unsafe { std::mem::transmute(create) };
        // SAFETY: the name is a C string that lives through the call.
        Some(Self { handle: unsafe { create(name.as_ptr()) } })
    }

    /// Tells the tool a string once, so that ranges need not carry it.
    pub fn register(&self, text: &CStr) -> Name {
        let Some(register) = function(REGISTER_STRING) else { return Name { handle: null_mut() } };
        // SAFETY: the tool has put `nvtxDomainRegisterStringA` into this entry, which has this
        // type.
        let register: unsafe extern "C" fn(Handle, *const c_char) -> Handle =
            unsafe { std::mem::transmute(register) };
        // SAFETY: the domain is the tool's own, and the text a C string that lives through the
        // call.
        Name { handle: unsafe { register(self.handle, text.as_ptr()) } }
    }

    /// Begins a range on this thread, inside those that are open.
    #[must_use]
    pub fn push(&self, name: Name) -> Pushed<'_> {
        let attributes = Attributes {
            version: VERSION as u16,
            size: size_of::<Attributes>() as u16,
            category: 0,
            color_type: 0,
            color: 0,
            payload_type: 0,
            reserved: 0,
            payload: 0,
            message_type: REGISTERED,
            message: name.handle,
        };
        if let Some(push) = function(RANGE_PUSH) {
            // SAFETY: the tool has put `nvtxDomainRangePushEx` into this entry, which has this
            // type.
            let push: unsafe extern "C" fn(Handle, *const Attributes) -> c_int =
                unsafe { std::mem::transmute(push) };
            // SAFETY: domain and name are the tool's own, and the attributes live through the call.
            unsafe { push(self.handle, &attributes) };
        }
        Pushed { domain: self, not_send: PhantomData }
    }
}

impl Drop for Pushed<'_> {
    fn drop(&mut self) {
        if let Some(pop) = function(RANGE_POP) {
            // SAFETY: the tool has put `nvtxDomainRangePop` into this entry, which has this type.
            let pop: unsafe extern "C" fn(Handle) -> c_int = unsafe { std::mem::transmute(pop) };
            // SAFETY: the domain is the tool's own.
            unsafe { pop(self.domain.handle) };
        }
    }
}

/// The tool's function for an entry of the domain module.
fn function(entry: usize) -> Option<*mut c_void> {
    let address = FUNCTIONS[CORE2][entry].load(Ordering::Acquire);
    (!address.is_null()).then_some(address)
}

/// Loads the tool that the environment names, once.
fn tool_listens() -> bool {
    static LISTENS: OnceLock<bool> = OnceLock::new();
    *LISTENS.get_or_init(|| {
        let Some(path) = std::env::var_os(INJECTION).filter(|path| !path.is_empty()) else {
            return false;
        };
        let told = |why: String| {
            log::warn!(
                "no NVTX ranges: {INJECTION}={}: {why}; run under nsys, or unset it",
                path.display()
            );
            false
        };
        // SAFETY: the initialisers of a profiler's library run, as whoever set the variable asked
        // for.
        let library = match unsafe { Library::new(&path) } {
            Ok(library) => library,
            Err(error) => return told(error.to_string()),
        };
        // SAFETY: NVTX gives the symbol this type.
        let initialize = unsafe { library.get::<Initialize>(b"InitializeInjectionNvtx2\0") };
        let listens = match initialize {
            // SAFETY: the tool gets the function that it expects, and that lives as long as the
            // process.
            Ok(initialize) => unsafe { initialize(export_table) != 0 },
            Err(error) => return told(error.to_string()),
        };
        if !listens {
            return told("the tool does not want to listen".to_owned());
        }
        // Its functions stay in the tables: it must never be unloaded.
        std::mem::forget(library);
        true
    })
}

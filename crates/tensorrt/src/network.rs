/*!
A network read from an ONNX file, with the parser's complaints as nodes, operators and the file's
opset.
*/

use std::ffi::c_void;
use std::path::Path;
use std::ptr::NonNull;
use std::rc::Rc;

use super::error::{Cause, Error, NodeError, Result};
use super::ffi_object::{Object, c_name, copied};
use super::library::Library;
use super::owners::BuilderObject;
use super::sys;
use super::types::{DataType, from_dims};
use crate::onnx_file::OnnxSummary;

/// The source of the layers' precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typing {
    /// The builder chooses, among the precisions that flags allow; layers can be pinned. Not in 11
    /// and RTX 1.5 on.
    Weak,
    /// The ONNX file's types are kept as they are. Not in 8.x.
    Strong,
}

/// An input or output of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Its name.
    pub name: String,
    /// Its extents; -1 for one that the network leaves open.
    pub shape: Vec<i64>,
    /// Its element type, none for a type that [`DataType`] does not have.
    pub dtype: Option<DataType>,
}

/// A network definition and, once parsed, the parser that owns its weights.
///
/// Declared in the order of deletion, that of NVIDIA's samples: parser, network, builder.
pub struct Network {
    parser: Option<Parser>,
    pub(super) object: Object,
    _builder: Rc<BuilderObject>,
}

struct Parser {
    pointer: NonNull<c_void>,
    library: Library,
}

impl Drop for Parser {
    fn drop(&mut self) {
        // SAFETY: made by trtdl_parser_new, deleted here only; its network is still alive (field
        // order in Network).
        unsafe { sys::trtdl_parser_delete(self.library.api(), self.pointer.as_ptr()) }
    }
}

impl Network {
    pub(super) fn new(builder: &Rc<BuilderObject>, typing: Typing) -> Result<Self> {
        let library = builder.object.library();
        let strong = typing == Typing::Strong;
        if !strong && library.family().is_strongly_typed_only() {
            return Err(library.unsupported("weakly typed networks"));
        }
        if strong && library.family() == super::Family::Trt8 {
            return Err(library.unsupported("strongly typed networks"));
        }
        let object = library.make("create a network", |api| {
            // SAFETY: a living builder, kept alive by `_builder`.
            unsafe { sys::trtdl_builder_network(api, builder.object.get(), strong.into()) }
        })?;
        Ok(Self { parser: None, object, _builder: builder.clone() })
    }

    pub(super) fn pointer(&self) -> *mut c_void {
        self.object.get()
    }

    pub(super) fn library(&self) -> &Library {
        self.object.library()
    }

    /// Fills the network from an ONNX file; external weights are searched in its folder.
    ///
    /// # Errors
    /// [`Error::ParserMissing`], and [`Error::Parse`] with one entry per node that this release
    /// cannot take.
    pub fn parse_onnx(&mut self, file: &Path) -> Result<()> {
        let library = self.library().clone();
        if self.parser.is_some() {
            return Err(library.unsupported("way to parse a second file into one network"));
        }
        library.parser_path()?;
        let mark = library.inner.log.mark();
        let path = file
            .to_str()
            .ok_or_else(|| library.unsupported("way to read a path that is not UTF-8"))?;
        let path = c_name(path)?;
        // SAFETY: an api with an entry point for parsers (parser_path), and a living network.
        let pointer = unsafe { sys::trtdl_parser_new(library.api(), self.pointer()) };
        let pointer =
            NonNull::new(pointer).ok_or_else(|| library.failed("create an ONNX parser", mark))?;
        let parser = Parser { pointer, library: library.clone() };
        // SAFETY: a living parser and a C string.
        let parsed = unsafe {
            sys::trtdl_parser_parse(library.api(), parser.pointer.as_ptr(), path.as_ptr())
        };
        let failure = (parsed == 0).then(|| {
            let (opset, nodes) = parser.complaints(file);
            let cause = Cause(library.inner.log.since(mark));
            Error::Parse { file: file.to_owned(), version: library.version(), opset, nodes, cause }
        });
        // Kept even after a failure: what was parsed so far may point into it.
        self.parser = Some(parser);
        failure.map_or(Ok(()), Err)
    }

    /// The network's inputs.
    pub fn inputs(&self) -> Vec<TensorSpec> {
        // SAFETY: a living network; indices are below the count that it gives.
        unsafe {
            let (api, network) = (self.object.api(), self.pointer());
            (0..sys::trtdl_network_inputs(api, network))
                .filter_map(|index| self.tensor(sys::trtdl_network_input(api, network, index)))
                .collect()
        }
    }

    /// The network's outputs.
    pub fn outputs(&self) -> Vec<TensorSpec> {
        // SAFETY: a living network; indices are below the count that it gives.
        unsafe {
            let (api, network) = (self.object.api(), self.pointer());
            (0..sys::trtdl_network_outputs(api, network))
                .filter_map(|index| self.tensor(sys::trtdl_network_output(api, network, index)))
                .collect()
        }
    }

    fn tensor(&self, tensor: *mut c_void) -> Option<TensorSpec> {
        let api = self.object.api();
        let tensor = NonNull::new(tensor)?.as_ptr();
        // SAFETY: a tensor of the living network.
        let (name, dims, kind) = unsafe {
            let name = copied(sys::trtdl_tensor_name(api, tensor));
            (name, sys::trtdl_tensor_dims(api, tensor), sys::trtdl_tensor_type(api, tensor))
        };
        let shape = from_dims(&dims).unwrap_or_default();
        Some(TensorSpec { name: name?, shape, dtype: DataType::from_shim(kind) })
    }
}

impl Parser {
    fn complaints(&self, file: &Path) -> (Option<i64>, Vec<NodeError>) {
        let (api, parser) = (self.library.api(), self.pointer.as_ptr());
        // What the file says helps where the parser is silent; a file that cannot be read says
        // nothing.
        let summary = OnnxSummary::read(file).unwrap_or_default();
        // SAFETY: a living parser.
        let count = unsafe { sys::trtdl_parser_errors(api, parser) };
        let mut nodes: Vec<NodeError> = Vec::new();
        for index in 0..count {
            let mut error = empty_error();
            // SAFETY: an index below the parser's count, and a place for the answer.
            let status = unsafe { sys::trtdl_parser_error_at(api, parser, index, &mut error) };
            if status == sys::TRTDL_OK {
                // SAFETY: the parser, whose strings these are, lives.
                let node = unsafe { described(&error, &summary) };
                if !nodes.contains(&node) {
                    nodes.push(node);
                }
            }
        }
        (summary.opset, nodes)
    }
}

fn empty_error() -> sys::trtdl_parser_error {
    sys::trtdl_parser_error {
        code: 0,
        node: -1,
        line: 0,
        description: std::ptr::null(),
        file: std::ptr::null(),
        function: std::ptr::null(),
        node_name: std::ptr::null(),
        node_operator: std::ptr::null(),
    }
}

/// Before 10 the parser gives a node's number only; the file has its name and operator.
///
/// # Safety
/// The strings of `error` are NULL or live until this returns.
unsafe fn described(error: &sys::trtdl_parser_error, summary: &OnnxSummary) -> NodeError {
    let in_file = usize::try_from(error.node).ok().and_then(|index| summary.nodes.get(index));
    // SAFETY: the caller's.
    let [node, operator, description] = unsafe {
        [copied(error.node_name), copied(error.node_operator), copied(error.description)]
    };
    let said = |from: Option<String>, in_file: Option<&String>| {
        let from = from.filter(|text| !text.is_empty());
        from.or_else(|| in_file.filter(|text| !text.is_empty()).cloned())
    };
    NodeError {
        node: said(node, in_file.map(|node| &node.name)),
        operator: said(operator, in_file.map(|node| &node.operator)),
        code: error.code,
        description: description.unwrap_or_else(|| "no description".to_owned()),
    }
}

/*!
The nodes of a recorded graph.
*/

use std::ptr;

use cudarc::driver::DriverError;
use cudarc::driver::sys::{self, CUgraph, CUgraphNode, CUgraphNodeType};

use super::driver;

pub(super) type Tried<T> = std::result::Result<T, DriverError>;

const KERNEL: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL as u32;
const CHILD: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH as u32;
const EMPTY: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY as u32;
/// The last kind without kernels that the binding knows. Behind it is the conditional node, whose
/// launches the graph decides while it runs.
const NO_KERNELS: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_BATCH_MEM_OP as u32;
pub(super) const FILL: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET as u32;

/// What counting needs of the driver besides what everything does.
const FUNCTIONS: [&str; 3] =
    ["cuGraphGetNodes", "cuGraphNodeGetType", "cuGraphChildGraphNodeGetGraph"];

/// Nodes, asked for twice: how many there are, then which.
pub(super) fn listed(
    ask: impl Fn(*mut CUgraphNode, *mut usize) -> sys::CUresult,
) -> Tried<Vec<CUgraphNode>> {
    let mut count = 0;
    ask(ptr::null_mut(), &raw mut count).result()?;
    let mut nodes = vec![ptr::null_mut(); count];
    if count > 0 {
        ask(nodes.as_mut_ptr(), &raw mut count).result()?;
    }
    nodes.truncate(count);
    Ok(nodes)
}

/// All nodes of a graph.
///
/// # Safety
/// The graph lives.
pub(super) unsafe fn of(graph: CUgraph) -> Tried<Vec<CUgraphNode>> {
    // SAFETY: the caller's; as many places as are asked for.
    listed(|to, count| unsafe { sys::cuGraphGetNodes(graph, to, count) })
}

/// The kind of a node, as a number: a driver may know kinds that the binding does not.
///
/// # Safety
/// The node's graph lives.
pub(super) unsafe fn kind(node: CUgraphNode) -> Tried<u32> {
    let mut found = EMPTY;
    // SAFETY: the caller's; a kind is a number of this size.
    unsafe { sys::cuGraphNodeGetType(node, (&raw mut found).cast()) }.result()?;
    Ok(found)
}

/// Kernels that a launch of the graph runs, those of graphs inside it among them. None where the
/// driver does not tell, or where the graph decides while it runs.
///
/// # Safety
/// The graph lives.
pub(super) unsafe fn kernels(graph: CUgraph) -> Option<u64> {
    if !driver::offers(&FUNCTIONS) {
        return None;
    }
    // SAFETY: the caller's.
    unsafe { counted(graph) }
        .inspect_err(|error| log::debug!("the kernels of a graph are not known: {error:?}"))
        .ok()
        .flatten()
}

/// As [`kernels`], of a driver that has the functions.
unsafe fn counted(graph: CUgraph) -> Tried<Option<u64>> {
    let mut kernels = 0;
    // SAFETY: the caller's.
    for node in unsafe { of(graph) }? {
        // SAFETY: a node of the graph.
        kernels += match unsafe { kind(node) }? {
            KERNEL => 1,
            CHILD => {
                let mut child = ptr::null_mut();
                // SAFETY: a node of this kind; its graph lives as long as the outer one.
                let inner = unsafe {
                    sys::cuGraphChildGraphNodeGetGraph(node, &raw mut child).result()?;
                    counted(child)
                };
                let Some(inner) = inner? else { return Ok(None) };
                inner
            }
            kind if kind <= NO_KERNELS => 0,
            _ => return Ok(None),
        };
    }
    Ok(Some(kernels))
}

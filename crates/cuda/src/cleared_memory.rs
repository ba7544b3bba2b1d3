/*!
Removes from a captured graph the zero fills of memory that the graph has already filled as a whole.

cuBLASLt clears a counter of four bytes, by which a matmul's blocks synchronise, before each matmul
that has one. As a node between two kernels that costs 2.5 to 6 us on an H200, a third of a matmul.
If every matmul has a counter of its own, all of them can be cleared at once, before the first; then
the nodes for single ones have no effect.
*/

use std::mem::MaybeUninit;

use cudarc::driver::sys::{self, CUgraph, CUgraphNode};

use super::driver;
use super::graph_nodes::{self, Tried, listed};
use super::view::View;

/// What this needs of the driver besides what everything does; drivers since CUDA 10 have it.
const FUNCTIONS: [&str; 7] = [
    "cuGraphGetNodes",
    "cuGraphNodeGetType",
    "cuGraphMemsetNodeGetParams",
    "cuGraphNodeGetDependencies",
    "cuGraphNodeGetDependentNodes",
    "cuGraphAddDependencies",
    "cuGraphDestroyNode",
];

/// Takes out the nodes that fill a part of `cleared` with zeros, and not all of it. What came
/// before such a node then comes before what came after it. A node that the driver does not remove
/// stays, with its effect.
///
/// # Safety
/// The graph lives, nobody else uses it, and it fills all of `cleared` with zeros before anything
/// else uses any of it.
pub(super) unsafe fn leave_out(graph: CUgraph, cleared: &View) {
    if !driver::offers(&FUNCTIONS) {
        return;
    }
    // SAFETY: the caller's.
    let (left_out, error) = unsafe { take_out(graph, cleared) }
        .map_or_else(|error| (0, Some(error)), |count| (count, None));
    log::debug!("{left_out} fills left out of a recording {error:?}");
}

/// As [`leave_out`]; how many.
unsafe fn take_out(graph: CUgraph, cleared: &View) -> Tried<usize> {
    let mut left_out = 0;
    // SAFETY: the caller's.
    for node in unsafe { graph_nodes::of(graph) }? {
        // SAFETY: a node of the graph, which lives.
        if unsafe { fills_a_part(node, cleared) }? {
            // SAFETY: as above; the node's only effect is one that the caller vouches for.
            let taken = unsafe { bridge(graph, node) };
            // Edges of a kind that these functions cannot tell, for one.
            if let Err(error) = taken {
                log::debug!("a fill stays in a recording: {error:?}");
                continue;
            }
            left_out += 1;
        }
    }
    Ok(left_out)
}

/// Whether a node fills a part of `cleared` with zeros.
unsafe fn fills_a_part(node: CUgraphNode, cleared: &View) -> Tried<bool> {
    // SAFETY: the node lives.
    if unsafe { graph_nodes::kind(node) }? != graph_nodes::FILL {
        return Ok(false);
    }
    let mut fill = MaybeUninit::uninit();
    // SAFETY: it is such a node, and `fill` a place for what it does, which is written where the
    // answer is success.
    let fill = unsafe {
        sys::cuGraphMemsetNodeGetParams(node, fill.as_mut_ptr()).result()?;
        fill.assume_init()
    };
    let bytes = fill.width * fill.elementSize as usize;
    let start = cleared.address() as u64;
    let inside = fill.dst >= start && fill.dst + bytes as u64 <= start + cleared.len() as u64;
    Ok(inside && fill.value == 0 && fill.height == 1 && bytes < cleared.len())
}

/// Takes a node out of the graph.
unsafe fn bridge(graph: CUgraph, node: CUgraphNode) -> Tried<()> {
    // SAFETY: the node lives; as many places as are asked for.
    let before = listed(|to, count| unsafe { sys::cuGraphNodeGetDependencies(node, to, count) })?;
    // SAFETY: as above.
    let behind = listed(|to, count| unsafe { sys::cuGraphNodeGetDependentNodes(node, to, count) })?;
    for first in &before {
        for then in &behind {
            // SAFETY: nodes of this graph, one edge.
            unsafe { sys::cuGraphAddDependencies(graph, first, then, 1) }.result()?;
        }
    }
    // SAFETY: the node is not used any more.
    unsafe { sys::cuGraphDestroyNode(node) }.result()
}

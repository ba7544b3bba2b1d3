/*!
GPU operations: kernels, CUDA graphs, copies, memory fills.
*/

use anyhow::Result;
use rusqlite::Row;

use super::Loader;
use crate::nsys::trace::{Correlation, GpuOp, MemoryKind, Name, OpKind, Trace};

/// Tables with GPU operations.
pub(super) const TABLES: [(OpKind, &str); 4] = [
    (OpKind::Kernel, "CUPTI_ACTIVITY_KIND_KERNEL"),
    (OpKind::Graph, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"),
    (OpKind::Copy, "CUPTI_ACTIVITY_KIND_MEMCPY"),
    (OpKind::Set, "CUPTI_ACTIVITY_KIND_MEMSET"),
];

struct OpRow {
    start: i64,
    end: i64,
    device: i64,
    stream: i64,
    memory: [Option<MemoryKind>; 2],
    correlation: Option<i64>,
    process: Option<i64>,
    bytes: i64,
    name: Option<i64>,
}

/// `ENUM_CUDA_MEMCPY_OPER`, in nsys's words.
const COPIES: [&str; 14] = [
    "Unknown",
    "Host-to-Device",
    "Device-to-Host",
    "Host-to-Array",
    "Array-to-Host",
    "Array-to-Array",
    "Array-to-Device",
    "Device-to-Array",
    "Device-to-Device",
    "Host-to-Host",
    "Peer-to-Peer",
    "Unified Host-to-Device",
    "Unified Device-to-Host",
    "Unified Device-to-Device",
];

impl Loader<'_> {
    /// GPU operations in order of time.
    pub(super) fn ops(&self, trace: &mut Trace) -> Result<()> {
        for (kind, table) in TABLES {
            if !self.database.has(table) {
                continue;
            }
            let rows = self.op_rows(kind, table)?;
            let mut ops = trace.ops.take().unwrap_or_default();
            ops.reserve(rows.len());
            for row in rows {
                let name = self.op_name(trace, kind, row.name);
                let owner = self.owner(row.process);
                let correlation: Option<Correlation> =
                    row.correlation.map(|number| (owner, number));
                let OpRow { start, end, device, stream, memory, bytes, .. } = row;
                ops.push(GpuOp {
                    kind,
                    name,
                    start,
                    end,
                    device,
                    stream,
                    memory,
                    correlation,
                    bytes,
                });
            }
            trace.ops = Some(ops);
        }
        if let Some(ops) = &mut trace.ops {
            ops.sort_by_key(|op| (op.start, op.end));
        }
        Ok(())
    }

    fn op_rows(&self, kind: OpKind, table: &str) -> Result<Vec<OpRow>> {
        self.database.require(table, &["start", "end", "deviceId"])?;
        let column = |names: &[&'static str]| self.database.column(table, names);
        let name = match kind {
            OpKind::Kernel => column(&["demangledName", "shortName", "mangledName"]),
            OpKind::Graph => column(&["graphId", "graphExecId"]),
            OpKind::Copy => column(&["copyKind"]),
            OpKind::Set => "NULL",
        };
        let [from, to] = match kind {
            OpKind::Copy => [column(&["srcKind"]), column(&["dstKind"])],
            OpKind::Set => ["NULL", column(&["memKind"])],
            OpKind::Kernel | OpKind::Graph => ["NULL", "NULL"],
        };
        let sql = format!(
            "SELECT start, end, deviceId, {}, {}, {}, {name}, {}, {from}, {to} FROM {table}",
            column(&["correlationId"]),
            column(&["globalPid"]),
            column(&["bytes"]),
            column(&["streamId"])
        );
        let read = |row: &Row<'_>| {
            Ok(OpRow {
                start: row.get(0)?,
                end: row.get(1)?,
                device: row.get(2)?,
                correlation: row.get(3)?,
                process: row.get(4)?,
                bytes: row.get::<_, Option<i64>>(5)?.unwrap_or(0),
                name: row.get(6)?,
                stream: row.get::<_, Option<i64>>(7)?.unwrap_or(0),
                memory: [
                    row.get::<_, Option<i64>>(8)?.map(MemoryKind),
                    row.get::<_, Option<i64>>(9)?.map(MemoryKind),
                ],
            })
        };
        self.database.rows(&sql, read)
    }

    /// Memory operations have the names of nsys's tables.
    fn op_name(&self, trace: &mut Trace, kind: OpKind, id: Option<i64>) -> Name {
        let text = match kind {
            OpKind::Kernel => self.string(id).unwrap_or("(unnamed kernel)").to_owned(),
            OpKind::Graph => format!("[CUDA graph {}]", id.unwrap_or(0)),
            OpKind::Copy => {
                let place = usize::try_from(id.unwrap_or(0)).unwrap_or(0);
                format!("[CUDA memcpy {}]", COPIES.get(place).unwrap_or(&COPIES[0]))
            }
            OpKind::Set => "[CUDA memset]".to_owned(),
        };
        trace.names.place(&text)
    }
}

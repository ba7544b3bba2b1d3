/*!
Events on the host: ranges, and calls of the CUDA API.
*/

use std::collections::HashMap;

use anyhow::Result;

use super::Loader;
use crate::nsys::trace::{Call, Range, RangeKind, Trace, process};

/// `ENUM_NSYS_EVENT_TYPE`: ranges of the program and of imported text, and the name of a domain.
const PUSH_POP: [i64; 2] = [59, 70];
const START_END: [i64; 2] = [60, 71];
const DOMAIN_CREATE: i64 = 75;
impl Loader<'_> {
    /// Ranges with the names of their domains.
    pub(super) fn ranges(&self, trace: &mut Trace) -> Result<()> {
        const TABLE: &str = "NVTX_EVENTS";
        if !self.database.has(TABLE) {
            return Ok(());
        }
        self.database.require(TABLE, &["start", "end", "eventType", "globalTid"])?;
        let column = |names: &[&'static str]| self.database.column(TABLE, names);
        let sql = format!(
            "SELECT start, end, eventType, globalTid, {}, {}, {}, {} FROM {TABLE} ORDER BY start, \
             rowid",
            column(&["endGlobalTid"]),
            column(&["text"]),
            column(&["textId"]),
            column(&["domainId"])
        );
        struct NvtxEvent {
            start: i64,
            end: Option<i64>,
            kind: i64,
            thread: Option<i64>,
            end_thread: Option<i64>,
            text: Option<String>,
            text_id: Option<i64>,
            domain: Option<i64>,
        }
        let events = self.database.rows(&sql, |row| {
            Ok(NvtxEvent {
                start: row.get(0)?,
                end: row.get(1)?,
                kind: row.get(2)?,
                thread: row.get(3)?,
                end_thread: row.get(4)?,
                text: row.get(5)?,
                text_id: row.get(6)?,
                domain: row.get(7)?,
            })
        })?;
        // A domain's number belongs to its process.
        let key =
            |event: &NvtxEvent| (process(event.thread.unwrap_or(0)), event.domain.unwrap_or(0));
        let word = |event: &NvtxEvent| {
            let own = event.text.as_deref().or_else(|| self.string(event.text_id));
            own.unwrap_or("(unnamed)").to_owned()
        };
        let domains: HashMap<(i64, i64), String> = events
            .iter()
            .filter(|event| event.kind == DOMAIN_CREATE)
            .map(|event| (key(event), word(event)))
            .collect();
        for event in &events {
            let style = match event.kind {
                kind if PUSH_POP.contains(&kind) => RangeKind::PushPop,
                kind if START_END.contains(&kind) => RangeKind::StartEnd,
                _ => continue,
            };
            let domain = domains.get(&key(event)).map_or("", String::as_str);
            let name = trace.names.place(&format!("{domain}:{}", word(event)));
            let Some(end) = event.end else {
                trace.unended.push(name);
                continue;
            };
            let thread = event.thread.unwrap_or(0);
            let same_thread = event.end_thread.is_none_or(|other| other == thread);
            trace.ranges.push(Range { name, style, start: event.start, end, thread, same_thread });
        }
        Ok(())
    }

    /// Calls of the CUDA API.
    pub(super) fn calls(&self, trace: &mut Trace) -> Result<()> {
        const TABLE: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";
        if !self.database.has(TABLE) {
            return Ok(());
        }
        self.database.require(TABLE, &["start", "end", "globalTid", "correlationId", "nameId"])?;
        let sql = format!(
            "SELECT start, end, globalTid, correlationId, nameId FROM {TABLE} ORDER BY start, rowid"
        );
        let rows = self.database.rows(&sql, |row| {
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get::<_, Option<i64>>(2)?,
                row.get::<_, Option<i64>>(3)?,
                row.get(4)?,
            ))
        })?;
        let mut calls = Vec::with_capacity(rows.len());
        for (start, end, thread, correlation, name_id) in rows {
            let text = without_version(self.string(name_id).unwrap_or("(unnamed)")).to_owned();
            let name = trace.names.place(&text);
            let thread = thread.unwrap_or(0);
            let correlation = (self.owner(Some(thread)), correlation.unwrap_or(0));
            calls.push(Call { name, start, end, thread, correlation });
        }
        trace.calls = Some(calls);
        Ok(())
    }
}

/// `cudaLaunchKernel` of `cudaLaunchKernel_v7000`.
fn without_version(name: &str) -> &str {
    match name.rsplit_once("_v") {
        Some((function, version))
            if version.len() >= 4 && version.bytes().all(|b| b.is_ascii_digit()) =>
        {
            function
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_functions_are_no_part_of_their_names() {
        assert_eq!(without_version("cudaLaunchKernel_v7000"), "cudaLaunchKernel");
        assert_eq!(without_version("cuMemAlloc_v2"), "cuMemAlloc_v2");
        assert_eq!(without_version("my_value"), "my_value");
        assert_eq!(without_version("cudaMemcpyAsync_ptsz_v7000"), "cudaMemcpyAsync_ptsz");
    }
}

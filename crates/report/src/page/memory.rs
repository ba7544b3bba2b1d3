/*!
Device memory by use, from the runs' sidecars.
*/

use super::part::Part;
use crate::content::Report;
use crate::table::{Cell, Table};
use vos::record::DeviceMemoryUse;

/// A line for each run and model whose sidecar tells it; nothing without any.
pub fn by_use(report: &Report) -> Option<Part> {
    let names = DeviceMemoryUse::default().uses().map(|(name, _)| format!("{name} MiB"));
    let heads: Vec<&str> =
        ["Run", "Model"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let caption = "GPU memory by use, from the allocator; context and libraries are the rest of \
                   what the process took.";
    let mut table = Table::new("memory_by_use", caption, &heads, 2);
    for source in &report.sources {
        for (model, memory) in &source.memory {
            let Some(device) = &memory.device else { continue };
            let mut cells = vec![Cell::text(&source.label), Cell::text(model)];
            cells.extend(device.uses().map(|(_, mib)| Cell::number(mib, 1, false)));
            table.push(cells, false);
        }
    }
    (!table.rows.is_empty()).then_some(Part::Table(table))
}

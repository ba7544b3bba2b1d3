//! Output of ncu, made by hand in its form.

use super::*;
use crate::nsys::render;

const LONG: &str = "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio";
const BARRIER: &str = "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio";
const SELECTED: &str = "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio";

fn page() -> String {
    let head = ["ID", "Process ID", "Kernel Name", "Block Size", TIME, OCCUPANCY, TENSOR, DRAM, L2];
    let head = head.into_iter().chain([LONG, BARRIER, SELECTED]);
    let line = |fields: &[&str]| {
        let quoted: Vec<String> = fields.iter().map(|field| format!("\"{field}\"")).collect();
        quoted.join(",") + "\n"
    };
    let head = line(&head.collect::<Vec<_>>());
    let units =
        line(&["", "", "", "", "usecond", "%", "%", "Kbyte", "byte", "inst", "inst", "inst"]);
    let rows = [
        ["0", "7", "attend", "(128, 1, 1)", "1,200", "40.5", "61", "2.5", "9000", "3", "1", "50"],
        ["1", "7", "mask_bits", "(256, 1, 1)", "3", "80", "0", "n/a", "64", "0.5", "1.5", "50"],
        ["2", "7", "attend", "(128, 1, 1)", "1,400", "42.5", "63", "3.5", "9000", "3", "1", "50"],
    ];
    let rows: String = rows.iter().map(|row| line(row)).collect();
    format!(
        "==PROF== Connected to process 7 (/usr/bin/segtrt)\n==PROF== Profiling \"attend\": \
         0%....100% - 8 passes\n{head}{units}{rows}==PROF== Disconnected from process 7\n"
    )
}

#[test]
fn kernels_are_medians_of_their_launches_in_base_units() {
    let launches = parse(&page(), "x.csv").unwrap();
    assert_eq!(launches.len(), 3);
    let table = table(&launches);
    let row = |at: usize| -> Vec<String> {
        let cells = table.columns.iter().zip(&table.rows[at]);
        cells.map(|(column, cell)| cell.plain(column.unit)).collect()
    };
    assert_eq!(
        row(0),
        [
            "attend",
            "2",
            "1300000.0",
            "41.50",
            "62.00",
            "3000.0",
            "9000.0",
            "long scoreboard",
            "75.00"
        ]
    );
    assert_eq!(
        row(1),
        ["mask_bits", "1", "3000.0", "80.00", "0.00", "", "64.0", "barrier", "75.00"]
    );
    let screen = render::text(&table, 10);
    assert!(screen.contains("1.300 ms") && screen.contains("long scoreboard"), "{screen}");
}

#[test]
fn what_is_no_raw_page_is_refused_with_a_sentence() {
    let refused = |text: &str| format!("{:#}", parse(text, "x.csv").unwrap_err());
    let empty = refused("==PROF== Connected\n==ERROR== No kernels were profiled.\n");
    assert!(empty.contains("x.csv has no table of ncu (it has: No kernels were"), "{empty}");
    assert!(refused("video,fps\n").contains("ncu --csv --page raw"));
    let details = refused("\"ID\",\"Kernel Name\",\"Metric Name\"\n");
    assert!(details.contains("is the details page of ncu"), "{details}");
    assert!(refused("\"ID\",\"Metric\"\n").contains("has no columns ID and Kernel Name"));
    let page = page();
    let cut = page.rfind("\"3.5\"").unwrap();
    assert!(refused(&page[..cut]).contains("truncated or damaged"), "{}", refused(&page[..cut]));
    let error = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA \
                 GPU Performance Counters on the target device 0.";
    assert!(refusal(error).unwrap().contains("NVreg_RestrictProfilingToAdminUsers=0"));
    assert_eq!(refusal(&page), None);
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let out = std::path::PathBuf::from(&args[0]);
    std::fs::create_dir_all(&out).unwrap();
    let inputs = report::read(&args[1..], &[]).unwrap();
    let report = report::build(inputs, None, "2026-11-24 12:00 UTC".into());
    let figures = report::Figures::of(&report, report::chart::Style::Page);
    std::fs::write(out.join("r.html"), report::render(&report, &figures, "Video object segmentation benchmark")).unwrap();
    report::write_plots(&out.join("plots"), figures.all()).unwrap();
    let paper = report::Figures::of(&report, report::chart::Style::Paper);
    report::write_plots(&out.join("paper"), paper.all()).unwrap();
    report::write_tables(&out.join("tables"), &report::tables(&report, &figures)).unwrap();
    for p in &report.problems { eprintln!("problem: {p}"); }
}

//! The page as a parser sees it.

use std::collections::HashSet;

use scraper::{ElementRef, Html, Selector};

use super::{gpu_rows, page_of, predecessor_table, run_folder};
use crate::support::{bench, synth};

fn all<'a>(page: &'a Html, selector: &str) -> Vec<ElementRef<'a>> {
    page.select(&Selector::parse(selector).unwrap()).collect()
}

/// The words of an element; cells do not run into each other.
fn text(element: ElementRef<'_>) -> String {
    let words = element.text().flat_map(str::split_whitespace);
    words.collect::<Vec<_>>().join(" ")
}

/// What holds for every page.
fn check(source: &str) -> Html {
    let page = Html::parse_document(source);
    let foreign = page.errors.iter().filter(|error| !error.contains("foreign")).collect::<Vec<_>>();
    assert!(foreign.is_empty(), "the page is no sound HTML: {foreign:?}");
    let mut ids = HashSet::new();
    for element in all(&page, "[id]") {
        assert!(
            ids.insert(element.attr("id").unwrap()),
            "two things are called {:?}",
            element.attr("id")
        );
    }
    // Nothing is fetched.
    for element in all(&page, "*") {
        for (name, value) in element.value().attrs() {
            let fetches = matches!(
                name,
                "src" | "href" | "srcset" | "data" | "action" | "poster" | "background"
            );
            assert!(
                !fetches
                    || value.starts_with('#')
                    || value == "data:,"
                    || value.starts_with("data:image/jpeg;base64,"),
                "{name}={value:?} is fetched"
            );
            assert!(!name.starts_with("on"), "{name} runs a script");
        }
    }
    let style: String = all(&page, "style").into_iter().map(text).collect();
    assert!(!style.contains("url(") && !style.contains("@import"), "the style fetches something");
    for link in all(&page, "a[href]") {
        assert!(
            ids.contains(&link.attr("href").unwrap()[1..]),
            "{:?} leads nowhere",
            link.attr("href")
        );
    }
    for section in all(&page, "[aria-labelledby]") {
        for id in section.attr("aria-labelledby").unwrap().split(' ') {
            assert!(ids.contains(id), "nothing is called {id:?}");
        }
    }
    for plot in all(&page, "svg.plot") {
        assert_eq!(plot.attr("role"), Some("img"));
        for (part, least) in [("title", 5), ("desc", 30)] {
            let words =
                plot.select(&Selector::parse(part).unwrap()).next().map(text).unwrap_or_default();
            assert!(words.len() >= least, "a plot has the {part} {words:?}");
        }
    }
    for table in all(&page, "table") {
        assert!(
            table
                .select(&Selector::parse("caption").unwrap())
                .next()
                .is_some_and(|caption| !text(caption).is_empty())
        );
        let columns = table.select(&Selector::parse("thead th").unwrap()).count();
        for row in table.select(&Selector::parse("tbody tr").unwrap()) {
            let cells: usize = row
                .child_elements()
                .map(|cell| cell.attr("colspan").map_or(1, |n| n.parse().unwrap()))
                .sum();
            assert_eq!(cells, columns, "{}", text(row));
        }
    }
    let said: String = all(&page, "header, main").into_iter().map(text).collect();
    let drawn: Vec<&str> = all(&page, "svg *")
        .iter()
        .flat_map(|part| part.value().attrs().map(|(_, value)| value))
        .collect();
    for wrong in ["NaN", "inf ", "undefined", "None", "Some("] {
        assert!(
            !said.contains(wrong) && !drawn.iter().any(|value| value.contains(wrong)),
            "the page says {wrong}"
        );
    }
    page
}

#[test]
fn a_bench_of_the_small_network_becomes_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 24);
    let run = dir.path().join("run");
    bench(&split, &run).assert().success();
    let source = page_of(dir.path(), &[run.to_str().unwrap()]);
    let page = check(&source);
    let plots: Vec<&str> =
        all(&page, "figure").iter().filter_map(|figure| figure.attr("id")).collect();
    let names = ["fps_vs_jandf", "latency_ecdf", "frame_times", "stage_breakdown", "memory_peaks"];
    assert_eq!(plots, names.map(|name| format!("plot-{name}")));
    assert!(source.contains("checkpoint edgetam_mini.safetensors"), "the weights are told of");
    let heads: Vec<String> =
        all(&page, "#summary table")[..1].iter().map(|table| text(*table)).collect();
    assert!(heads[0].contains("Host MiB") && !heads[0].contains("Power W"), "{heads:?}");
    let summary = text(all(&page, "#summary")[0]);
    assert!(
        summary.contains("Not measured in any line: GPU allocated MiB, GPU process MiB, Power W"),
        "{summary}"
    );
    assert!(text(all(&page, "#power")[0]).contains(
        "Not measured: these runs have no sensor \
        readings of a GPU"
    ));
}

#[test]
fn rows_of_a_gpu_and_of_the_predecessor_share_a_page_and_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let fast = predecessor_table(dir.path(), "shire.csv", 1.0);
    let slow = predecessor_table(dir.path(), "jetson.csv", 0.13);
    let rows = gpu_rows();
    let gpu = |name: &str| rows.join(name).display().to_string();
    let source = page_of(
        dir.path(),
        &[
            &gpu("edgetam_fp16_latency.csv"),
            &gpu("edgetam_fp16_throughput.csv"),
            &format!("RTX 3090={}", fast.display()),
            &format!("Jetson Orin={}", slow.display()),
        ],
    );
    let page = check(&source);
    let summary = text(all(&page, "#summary")[0]);
    assert!(
        summary.contains("NVIDIA H200")
            && summary.contains("RTX 3090")
            && summary.contains("465.9"),
        "{summary}"
    );
    let notes = text(all(&page, "#notes")[0]);
    assert!(notes.contains("Some rows are the Python predecessor's"), "{notes}");
    assert!(
        notes.contains("the timed region (rows")
            && notes.contains("mode (unknown, latency, throughput)"),
        "{notes}"
    );
    let platforms = text(all(&page, "#platforms table")[0]);
    assert!(
        platforms.contains(
            "edgetam_points · fp32 · 768 px · Python predecessor not measured not measured 46.92 \
             (1.00 ×) 6.19 (0.13 ×)"
        ),
        "{platforms}"
    );
    assert_eq!(all(&page, "#latency svg").len(), 0, "tables alone have no times of frames");
    assert!(text(all(&page, "#latency")[0]).contains("Not measured"));
    assert!(text(all(&page, "#stages")[0]).contains("there is no sidecar"));
}

#[test]
fn invalid_rows_are_struck_with_the_reason_and_win_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_folder(dir.path(), "clip", 60);
    let other = predecessor_table(dir.path(), "old.csv", 1.0);
    let source = page_of(dir.path(), &[run.to_str().unwrap(), other.to_str().unwrap()]);
    let page = check(&source);
    let struck: Vec<String> = all(&page, "#rows tr.invalid s").into_iter().map(text).collect();
    assert_eq!(struck, ["777.50", "1.25"]);
    let rows = text(all(&page, "#rows")[0]);
    assert!(
        rows.contains("✗ INVALID")
            && rows.contains("throttled: let the GPU cool")
            && rows.contains("jpeg: frame 3 is cut short")
    );
    for place in ["#best", "#summary table", "#accuracy", "#latency table"] {
        assert!(!text(all(&page, place)[0]).contains("777"), "{place} has the INVALID speed");
    }
    let gone = all(&page, "#rows tbody tr")
        .into_iter()
        .map(text)
        .find(|row| row.contains("gone"))
        .unwrap();
    assert!(gone.matches("not measured").count() >= 8 && !gone.contains(" 0.0"), "{gone}");
    assert!(
        text(all(&page, "#latency table")[0]).contains("edgetam_points orin latencies 1 59"),
        "the INVALID pass has no part"
    );
}

#[test]
fn names_are_words_and_never_code() {
    let dir = tempfile::tempdir().unwrap();
    let name = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;";
    let run = run_folder(dir.path(), name, 30);
    let given = format!("<b>board</b>={}", run.display());
    let source =
        page_of(dir.path(), &[&given, "--title", "<u>mine</u></title><script>alert(3)</script>"]);
    let page = check(&source);
    assert_eq!(
        (all(&page, "script").len(), all(&page, "img").len(), all(&page, "u").len()),
        (1, 0, 0)
    );
    let cells: Vec<String> = all(&page, "#rows td.wrap").into_iter().map(text).collect();
    assert_eq!(cells[0], name);
    assert_eq!(text(all(&page, "h1")[0]), "<u>mine</u></title><script>alert(3)</script>");
    assert!(text(all(&page, "#summary")[0]).contains("<b>board</b>"));
}

#[test]
fn a_million_frames_make_a_small_page_that_says_what_it_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_folder(dir.path(), "long", 1_000_000);
    let source = page_of(dir.path(), &[run.to_str().unwrap()]);
    assert!(source.len() < 400_000, "the page has {} bytes", source.len());
    let page = check(&source);
    let latency = text(all(&page, "#latency")[0]);
    assert!(
        latency
            .contains("of every 2000 of its 1000000 frames, the fastest and the slowest are drawn"),
        "{latency}"
    );
    assert!(latency.contains("show 400 points; percentiles are of all frames"), "{latency}");
}

#[test]
fn drift_targets_and_profiles_have_their_sections() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_folder(dir.path(), "clip", 60);
    let comparison = dir.path().join("comparison.json");
    std::fs::write(&comparison, r#"{"models":[{"model":"edgetam_points","sides":[
        {"side":"fp16","outcome":"as_original","as_original":{"side":"eager"}}]}],
        "drift":[{"model":"edgetam_points","side":"fp16","frame":[0,1,2],"iou":[1.0,0.99,0.97]},
        {"model":"edgetam_points","side":"fp16","memory":"teacher","frame":[0,1,2],"iou":[1.0,0.995,0.999]}]}"#).unwrap();
    let profile = dir.path().join("profile.json");
    std::fs::write(&profile, r#"{"name":"bs01","gpu_util_percent":41,"kernels":[{"name":"gemm<half>","total_ns":3000000,"instances":3},{"name":"soft","total_ns":1000000}]}"#)
        .unwrap();
    let files = [&run, &comparison, &profile].map(|path| path.to_str().unwrap());
    let source =
        page_of(dir.path(), &[files[0], files[1], "--nsys", files[2], "--targets", "default"]);
    let page = check(&source);
    assert!(
        text(all(&page, "#drift table")[0]).contains("edgetam_points fp16 3 0.986667 0.970000 2")
    );
    assert_eq!(all(&page, "#drift svg").len(), 1);
    assert!(
        text(all(&page, "#drift table")[0])
            .contains("edgetam_points fp16, teacher-forced 3 0.998000 0.995000 1")
    );
    // A speed that stands beside the original's masks at its precision alone is told as such.
    let whose = "edgetam_points, fp16: its masks agree with those of eager";
    assert!(source.contains(whose), "no {whose:?}");
    // The same colour, other dashes: in the plot and in its legend.
    assert_eq!(all(&page, "#drift svg path.s0").len(), 4);
    assert_eq!(all(&page, "#drift svg path.s0[stroke-dasharray]").len(), 2);
    let profiles = text(all(&page, "#profiles")[0]);
    assert!(
        profiles.contains("41.0 %") && profiles.contains("over its peak: not measured"),
        "{profiles}"
    );
    assert!(
        profiles.contains("gemm<half> kernels 3.000 75.0 3 soft kernels 1.000 25.0 not measured"),
        "{profiles}"
    );
    let targets = text(all(&page, "#targets")[0]);
    assert!(
        targets.contains(
            "Latency P50 edgetam_points · orin 24.51 ms < 16.67 ms ✗ fail \
                              latency_p50_ms, over 59 frames"
        ),
        "{targets}"
    );
    assert!(
        targets.contains("GPU memory edgetam_points · orin 14.66 % < 80 % ✓ pass"),
        "{targets}"
    );
    assert!(targets.contains("GPU utilisation edgetam_points · orin not measured"), "{targets}");
    let hints = text(all(&page, "#hints")[0]);
    assert!(hints.contains("throttled") && hints.contains("host-bound · bs01"), "{hints}");
}

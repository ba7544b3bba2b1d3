//! The page in a real browser, where there is one.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use scraper::{Html, Selector};

use super::{gpu_rows, page_of, predecessor_table, run_folder};

/// Chromium by the names that systems give it, or the one that `SEGTRT_CHROMIUM` names.
fn chromium() -> Option<PathBuf> {
    let named = std::env::var_os("SEGTRT_CHROMIUM").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let on_path = || {
        std::env::split_paths(&path)
            .flat_map(|dir| names.map(|name| dir.join(name)))
            .find(|file| file.is_file())
    };
    let found = named.or_else(on_path);
    if found.is_none() {
        eprintln!(
            "SKIPPED: no Chromium here; the report's page was not opened in a browser (apt-get \
             install chromium, or SEGTRT_CHROMIUM=FILE)"
        );
    }
    found
}

fn browse(browser: &Path, dir: &Path, args: &[&str], page: &Path) -> Output {
    let profile = dir.join("profile");
    Command::new(browser)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--enable-logging=stderr",
        ])
        .args(["--virtual-time-budget=3000", "--no-first-run", "--disable-dev-shm-usage"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(args)
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("the browser starts")
}

fn dom(browser: &Path, dir: &Path, page: &Path) -> (Html, String) {
    let output = browse(browser, dir, &["--dump-dom"], page);
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{messages}");
    (Html::parse_document(&String::from_utf8_lossy(&output.stdout)), messages)
}

fn text(page: &Html, selector: &str) -> Vec<String> {
    let selector = Selector::parse(selector).unwrap();
    page.select(&selector)
        .map(|element| element.text().collect::<String>().trim().to_owned())
        .collect()
}

fn made(dir: &Path) -> (PathBuf, String) {
    let run = run_folder(dir, "<script>document.title='owned'</script>", 60);
    let old = predecessor_table(dir, "old.csv", 1.0);
    let gpu = gpu_rows().join("sam2_tiny_fp16_latency.csv");
    let files = [&run, &old, &gpu].map(|path| path.to_str().unwrap());
    (dir.join("report.html"), page_of(dir, &files))
}

#[test]
fn a_browser_opens_the_page_without_complaint() {
    let Some(browser) = chromium() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (page, _) = made(dir.path());
    let (seen, messages) = dom(&browser, dir.path(), &page);
    // The script ran: it names the button and puts buttons into the heads of tables.
    assert!(["Dark page", "Light page"].contains(&text(&seen, "#theme")[0].as_str()));
    assert!(text(&seen, "#summary thead th button").contains(&"FPS".to_owned()));
    assert!(!messages.contains("CONSOLE") && !messages.contains("Refused to"), "{messages}");
    assert_eq!(text(&seen, "title")[0], "Video object segmentation benchmark");
}

#[test]
fn a_foreign_script_does_not_run() {
    let Some(browser) = chromium() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (page, source) = made(dir.path());
    std::fs::write(
        &page,
        source.replace("</main>", "<script>document.title='owned'</script></main>"),
    )
    .unwrap();
    let (seen, messages) = dom(&browser, dir.path(), &page);
    assert_eq!(text(&seen, "title")[0], "Video object segmentation benchmark");
    assert!(messages.contains("Content Security Policy"), "{messages}");
}

#[test]
fn a_click_sorts_and_a_click_turns_the_page_dark() {
    let Some(browser) = chromium() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (page, source) = made(dir.path());
    // The test's own script must run: it does what a reader's finger does.
    let open = source.replace("Content-Security-Policy", "X-None");
    let clicks = "<script>addEventListener('load',function(){var heads=document.querySelectorAll('#summary \
                  thead th');for(var \
                  i=0;i<heads.length;i++){if(heads[i].textContent==='FPS'){heads[i].querySelector('button').click();}}var \
                  was=getComputedStyle(document.body).backgroundColor;document.getElementById('theme').click();document.body.dataset.changed=String(was!==getComputedStyle(document.body).backgroundColor);});</script></body>";
    std::fs::write(&page, open.replace("</body>", clicks)).unwrap();
    let (seen, messages) = dom(&browser, dir.path(), &page);
    // The first table is the one that was clicked; that of the conditions follows it.
    let models = text(&seen, "#summary table tbody th");
    assert_eq!(
        models[..4],
        ["sam2_tiny_points", "edgetam_points", "edgetam_points", "sam2_tiny_points"],
        "{messages}"
    );
    assert_eq!(text(&seen, "#summary table th[aria-sort=descending]"), ["FPS"]);
    let body = Selector::parse("body[data-changed=true]").unwrap();
    assert!(seen.select(&body).next().is_some(), "the colours did not change");
}

/// A wide table scrolls inside its frame, and a line below it says so; the page itself never does.
#[test]
fn the_page_fits_a_wide_and_a_narrow_window_in_both_themes() {
    let Some(browser) = chromium() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (page, source) = made(dir.path());
    let open = source.replace("Content-Security-Policy", "X-None");
    // The page's observers run later on a busy machine, so the script looks up to nine times in the
    // 3 s that Chromium simulates.
    let measure = "<script>addEventListener('load',function(){(function look(left){setTimeout(function(){var \
                   root=document.documentElement;var \
                   more=0;document.querySelectorAll('.sheet').forEach(function(sheet){var scroll=sheet.querySelector('.scroll');var \
                   hidden=scroll.scrollWidth-scroll.clientWidth>1;var \
                   told=sheet.querySelector('.more').textContent!=='';if(!sheet.closest('details:not([open])')&&hidden!==told){more+=1;}});document.body.dataset.over=String(root.scrollWidth-root.clientWidth);document.body.dataset.untold=String(more);if(more&&left){look(left-1);}},300);})(8);});</script></body>";
    std::fs::write(&page, open.replace("</body>", measure)).unwrap();
    for (width, theme) in [(1400, 1), (500, 1), (1400, 0), (500, 0)] {
        let size = format!("--window-size={width},900");
        let theme = format!("--blink-settings=preferredColorScheme={theme}");
        let look = || {
            let output = browse(&browser, dir.path(), &["--dump-dom", &size, &theme], &page);
            let seen = Html::parse_document(&String::from_utf8_lossy(&output.stdout));
            let body = seen.select(&Selector::parse("body").unwrap()).next();
            let of = |name: &str| body.and_then(|body| body.value().attr(name).map(str::to_owned));
            (of("data-over"), of("data-untold"))
        };
        // Simulated time may end before a busy machine has run the observers once.
        let expected = (Some("0".to_owned()), Some("0".to_owned()));
        let told = (0..3).map(|_| look()).find(|told| *told == expected);
        assert!(told.is_some(), "{width} pixels: {:?}", look());
    }
}

#[test]
fn the_page_prints() {
    let Some(browser) = chromium() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (page, _) = made(dir.path());
    let pdf = dir.path().join("report.pdf");
    let output = browse(
        &browser,
        dir.path(),
        &[&format!("--print-to-pdf={}", pdf.display()), "--no-pdf-header-footer"],
        &page,
    );
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(&pdf).unwrap();
    assert!(bytes.starts_with(b"%PDF") && bytes.len() > 30_000, "{} bytes", bytes.len());
}

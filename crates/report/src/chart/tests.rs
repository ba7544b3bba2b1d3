//! Every kind of plot is valid XML and has a title and a description.

use resvg::usvg::{Options, Tree};

use super::*;

const HEAD: Head<'_> = Head { style: Style::Page, name: "n", title: "t", alt: "a" };

const NASTY: &str = "<script>alert(\"1\")</script> & 'x' \u{1}";

fn kinds(style: Style) -> Vec<Plot> {
    let dot = Dot {
        x: 3.0,
        y: 0.5,
        x_range: Some((2.0, 4.0)),
        y_range: Some((0.4, 0.6)),
        series: 9,
        class: 9,
        name: NASTY.into(),
        label: NASTY.into(),
        invalid: true,
    };
    let words = &Head { style, name: "name", title: NASTY, alt: NASTY };
    let bar = |value| Bar { series: 0, value, text: NASTY.into(), invalid: false };
    vec![
        scatter(Scatter {
            style,
            name: "a".into(),
            title: NASTY.into(),
            alt: NASTY.into(),
            x: NASTY.into(),
            y: NASTY.into(),
            series: (0..12).map(|at| (at, NASTY.into())).collect(),
            classes: vec![NASTY.into(); 12],
            dots: vec![dot.clone(), Dot { x: 900.0, ..dot }],
            notes: vec![NASTY.into()],
            front: true,
        })
        .unwrap(),
        lines(Lines {
            style,
            name: "b".into(),
            title: NASTY.into(),
            alt: NASTY.into(),
            lines: vec![
                Line {
                    label: NASTY.into(),
                    points: vec![(0.0, 1.0), (1.0, 2.0)],
                    marks: vec![(1.0, 2.0, NASTY.into())],
                    ..Line::default()
                };
                9
            ],
            guides: vec![Guide { y: 1.0, label: NASTY.into() }],
            ..Lines::default()
        })
        .unwrap(),
        bars(
            words,
            NASTY,
            &[NASTY.into(), "b".into()],
            &[BarGroup { label: NASTY.into(), bars: vec![bar(Some(2.0)), bar(None)] }],
            Vec::new(),
        )
        .unwrap(),
        forest(
            words,
            Forest {
                unit: NASTY.into(),
                heads: [const { String::new() }; 4],
                groups: vec![ForestGroup {
                    label: NASTY.into(),
                    rows: vec![
                        ForestRow {
                            name: NASTY.into(),
                            series: 11,
                            value: Some(2.0),
                            range: Some((1.5, 2.5)),
                            columns: [const { String::new() }; 4].map(|_| NASTY.into()),
                            label: NASTY.into(),
                            ..ForestRow::default()
                        },
                        ForestRow { name: NASTY.into(), ..ForestRow::default() },
                    ],
                }],
                notes: Vec::new(),
            },
        )
        .unwrap(),
        stacked(
            words,
            NASTY,
            &[(0, NASTY), (REST, "rest")],
            &[StackRow { label: NASTY.into(), parts: vec![(0, 2.0), (REST, 1.0)], invalid: true }],
            Vec::new(),
        )
        .unwrap(),
    ]
}

#[test]
fn files_are_sound_svg_whatever_things_are_called() {
    for (style, width) in [(Style::Page, 680.0), (Style::Paper, 316.4)] {
        for plot in kinds(style) {
            let file = plot.file();
            let tree = Tree::from_str(&file, &Options::default())
                .unwrap_or_else(|e| panic!("{}: {e}\n{file}", plot.name));
            let size = tree.size();
            assert!((size.width() - width).abs() < 0.1 && size.height() > 60.0, "{size:?}");
            assert!(!file.contains("<script") && !file.contains("var(--"), "{file}");
            assert_eq!(file.contains("class=\"strong\" x=\"16\" y=\"22\""), style == Style::Page);
        }
    }
}

#[test]
fn plots_on_a_page_have_a_role_a_title_and_a_text() {
    for plot in kinds(Style::Page) {
        let text = plot.inline().into_string();
        let parsed = scraper::Html::parse_fragment(&text);
        let one = |selector: &str| {
            let selector = scraper::Selector::parse(selector).unwrap();
            parsed.select(&selector).next().unwrap_or_else(|| panic!("no {selector:?} in {text}"))
        };
        let svg = one("svg.plot[role=img]");
        let named: Vec<&str> = svg.attr("aria-labelledby").unwrap().split(' ').collect();
        for id in named {
            let words: String = one(&format!("#{id}")).text().collect();
            assert_eq!(words.replace('\u{fffd}', "\u{1}"), NASTY);
        }
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}

#[test]
fn nothing_to_draw_is_no_plot() {
    assert!(scatter(Scatter::default()).is_none() && lines(Lines::default()).is_none());
    let unmeasured = BarGroup {
        label: "a".into(),
        bars: vec![Bar { series: 0, value: None, text: String::new(), invalid: false }],
    };
    assert!(bars(&Head::default(), "ms", &[], &[unmeasured], Vec::new()).is_none());
    let empty = StackRow { label: "a".into(), parts: Vec::new(), invalid: false };
    assert!(stacked(&Head::default(), "ms", &[], &[empty], Vec::new()).is_none());
}

#[test]
fn what_is_not_measured_is_said_and_has_no_bar() {
    let bar = |value: Option<f64>| Bar {
        series: 0,
        value,
        text: value.map_or(String::new(), |v| v.to_string()),
        invalid: false,
    };
    let groups = [
        BarGroup { label: "a".into(), bars: vec![bar(Some(4.0))] },
        BarGroup { label: "b".into(), bars: vec![bar(None)] },
    ];
    let text = bars(&HEAD, "ms", &[], &groups, Vec::new()).unwrap().inline().into_string();
    assert_eq!((text.matches("<rect").count(), text.matches("not measured").count()), (1, 1));
}

#[test]
fn what_is_not_to_be_believed_keeps_its_colour_and_has_no_fill() {
    let bar = |series| Bar { series, value: Some(1.0), text: "1".into(), invalid: true };
    let groups = [BarGroup { label: "a".into(), bars: vec![bar(0), bar(1)] }];
    let bars = bars(&HEAD, "ms", &["x".into(), "y".into()], &groups, Vec::new()).unwrap();
    let row = StackRow { label: "a".into(), parts: vec![(2, 2.0), (REST, 1.0)], invalid: true };
    let series = [(2, "two"), (REST, "rest")];
    let stacked = stacked(&HEAD, "ms", &series, &[row], Vec::new()).unwrap();
    for (plot, classes) in [(bars, ["h0", "h1"]), (stacked, ["h2", "hrest"])] {
        let text = plot.file();
        for class in classes {
            assert!(text.contains(&format!("<rect class=\"{class}\"")), "no {class} in {text}");
            let rule =
                text.split(&format!(".plot .{class}{{")).nth(1).and_then(|r| r.split('}').next());
            let rule = rule.unwrap_or_else(|| panic!("no rule of {class} in {text}"));
            assert!(rule.contains("fill:none") && rule.contains("stroke:#"), "{rule}");
        }
    }
}

#[test]
fn a_part_too_thin_to_see_is_no_rectangle_without_width() {
    let row = StackRow { label: "a".into(), parts: vec![(0, 1e6), (1, 1.0)], invalid: false };
    let plot = stacked(&HEAD, "ms", &[(0, "x"), (1, "y")], &[row], Vec::new()).unwrap();
    let text = plot.file();
    assert!(!text.contains("width=\"0\""), "{text}");
    assert_eq!(text.matches("<rect class=\"f0 halo\"").count(), 1);
    assert_eq!(text.matches("<rect class=\"f1 halo\"").count(), 0);
}

/*!
Prompts from masks by both policies, and points on their way to the network and back.
*/

use proptest::prelude::*;
use vos::geometry::{Geometry, GeometryKind};
use vos::mask::Mask;
use vos::prompt::{Prompt, PromptKind, PromptPolicy};

fn mask(rows: &[&str]) -> Mask {
    Mask::from_fn(rows[0].len(), rows.len(), |x, y| rows[y].as_bytes()[x] == b'#')
}

fn prompt(mask: &Mask, kind: PromptKind, policy: PromptPolicy) -> Prompt {
    Prompt::from_mask(mask, kind, policy).unwrap()
}

#[test]
fn the_predecessors_click_is_the_truncated_centroid_of_the_first_component() {
    // The first component in raster order is the speck at the top right, not the big one.
    let speck = mask(&[".......#", ".......#", "###.....", "####....", "####...."]);
    let click = prompt(&speck, PromptKind::Points, PromptPolicy::Predecessor);
    assert_eq!(click, Prompt::Point { x: 7.0, y: 0.0 });
    let inside = prompt(&speck, PromptKind::Points, PromptPolicy::Interior);
    assert_eq!(inside, Prompt::Point { x: 1.0, y: 3.0 });
    // The centroid of a ring lies beside it.
    let ring = mask(&["#####", "#...#", "#...#", "#####"]);
    let click = prompt(&ring, PromptKind::Points, PromptPolicy::Predecessor);
    assert_eq!(click, Prompt::Point { x: 2.0, y: 1.0 });
}

#[test]
fn the_box_covers_all_components_with_inclusive_corners() {
    let two = mask(&["......", ".#....", "....##", "......"]);
    for policy in [PromptPolicy::Predecessor, PromptPolicy::Interior] {
        let found = prompt(&two, PromptKind::Bbox, policy);
        assert_eq!(found, Prompt::Box { x_min: 1.0, y_min: 1.0, x_max: 5.0, y_max: 2.0 });
        assert_eq!(prompt(&two, PromptKind::Mask, policy), Prompt::Mask(two.clone()));
    }
}

#[test]
fn an_empty_mask_has_no_prompt() {
    for kind in [PromptKind::Points, PromptKind::Bbox, PromptKind::Mask] {
        assert_eq!(Prompt::from_mask(&Mask::new(9, 9), kind, PromptPolicy::Predecessor), None);
        assert_eq!(Prompt::from_mask(&Mask::new(9, 9), kind, PromptPolicy::Interior), None);
        assert_eq!(PromptKind::from_name(kind.name()), Some(kind));
    }
    assert_eq!(PromptKind::from_name("scribble"), None);
}

/// Padding right of the content and below it, in network pixels.
fn padding_after(geometry: &Geometry) -> (usize, usize) {
    let (content, side) = (geometry.content(), geometry.side());
    (side - content.x - content.width, side - content.y - content.height)
}

/// A point of the network's input in pixels of a video of that size.
fn to_video(geometry: &Geometry, video: (usize, usize), point: [f32; 2]) -> (f32, f32) {
    let content = geometry.content();
    let map = |p: f32, pad: usize, video: usize, content: usize| {
        ((f64::from(p) - pad as f64) * video as f64 / content as f64) as f32
    };
    let x = map(point[0], content.x, video.0, content.width);
    (x, map(point[1], content.y, video.1, content.height))
}

#[test]
fn letterbox_sizes_are_the_predecessors() {
    // ratio 1024/854; 480 * ratio = 575.55 -> 576; half of the rest above.
    let wide = Geometry::new(GeometryKind::Letterbox, 854, 480, 1024);
    let content = wide.content();
    assert_eq!((content.x, content.y, content.width, content.height), (0, 224, 1024, 576));
    assert_eq!(padding_after(&wide), (0, 224));
    // Banker's rounding: 25 * 0.5 = 12.5 -> 12; 27 * 0.5 = 13.5 -> 14; 26 * 0.5 = 13 -> 14.
    for (height, fitted) in [(25, 12), (27, 14), (26, 14)] {
        let content = Geometry::new(GeometryKind::Letterbox, 200, height, 100).content();
        assert_eq!((content.width, content.height), (100, fitted), "height {height}");
    }
    // A very flat video keeps at least one row, made even.
    assert_eq!(Geometry::new(GeometryKind::Letterbox, 5000, 1, 256).content().height, 2);
}

#[test]
fn clicks_and_boxes_reach_the_network_with_their_labels() {
    let stretch = Geometry::new(GeometryKind::Stretch, 200, 100, 50);
    let click = stretch.points(&Prompt::Point { x: 100.0, y: 20.0 }).unwrap();
    assert_eq!((click.coords, click.labels), (vec![[25.0, 10.0]], vec![1]));
    let corners = Prompt::Box { x_min: 0.0, y_min: 0.0, x_max: 199.0, y_max: 99.0 };
    let found = stretch.points(&corners).unwrap();
    // 199 / 4 = 49.75 is clipped to the last pixel.
    assert_eq!((found.coords, found.labels), (vec![[0.0, 0.0], [49.0, 49.0]], vec![2, 3]));
    let letterbox = Geometry::new(GeometryKind::Letterbox, 200, 100, 50);
    // 100 * 0.25 = 25 rows, made even: 26, with 12 above.
    assert_eq!(letterbox.to_network(100.0, 50.0), [25.0, 25.0]);
    assert!(
        letterbox.points(&Prompt::Mask(Mask::new(200, 100))).is_err(),
        "a mask is no list of points"
    );
}

/// A diamond with holes, cut by the image's border; never empty.
fn any_mask() -> impl Strategy<Value = Mask> {
    let sizes = (1_usize..90, 1_usize..40);
    (sizes, any::<prop::sample::Index>(), any::<u64>(), 1_usize..30).prop_map(
        |((width, height), middle, holes, radius)| {
            let middle = middle.index(width * height);
            let (x, y) = (middle % width, middle / width);
            Mask::from_fn(width, height, |u, v| {
                let near = u.abs_diff(x) + v.abs_diff(y) < radius;
                (u, v) == (x, y) || near && holes >> ((u * 7 + v * 13) % 64) & 1 == 0
            })
        },
    )
}

proptest! {
    #[test]
    fn prompts_lie_on_or_around_the_object(mask in any_mask()) {
        let Prompt::Point { x, y } = prompt(&mask, PromptKind::Points, PromptPolicy::Interior) else {
            panic!("no point")
        };
        prop_assert!(mask.get(x as usize, y as usize));
        let Prompt::Box { x_min, y_min, x_max, y_max } =
            prompt(&mask, PromptKind::Bbox, PromptPolicy::Predecessor) else { panic!("no box") };
        let inside = |x: f32, y: f32| x_min <= x && x <= x_max && y_min <= y && y <= y_max;
        for (x, y) in mask.pixels() {
            prop_assert!(inside(x as f32, y as f32));
        }
        prop_assert!((x_max as usize) < mask.width() && (y_max as usize) < mask.height());
        let Prompt::Point { x, y } =
            prompt(&mask, PromptKind::Points, PromptPolicy::Predecessor) else { panic!("no point") };
        prop_assert!(inside(x, y));
    }

    #[test]
    fn points_come_back_within_a_pixel(
        width in 1_usize..3000, height in 1_usize..3000, side in 16_usize..1200, letterbox: bool,
        fx in 0.0_f64..1.0, fy in 0.0_f64..1.0,
    ) {
        let kind = if letterbox { GeometryKind::Letterbox } else { GeometryKind::Stretch };
        let geometry = Geometry::new(kind, width, height, side);
        let (x, y) = ((fx * width as f64).floor() as f32, (fy * height as f64).floor() as f32);
        let point = geometry.to_network(x, y);
        let last = side as f32 - 1.0;
        prop_assert!(point.iter().all(|&p| (0.0..=last).contains(&p)), "{:?}", point);
        let back = to_video(&geometry, (width, height), point);
        // Clipping to the last network pixel may cost up to one network pixel.
        let content = geometry.content();
        let slack = |video: usize, content: usize| (video as f32 / content as f32).max(1.0) + 1e-2;
        prop_assert!((back.0 - x).abs() <= slack(width, content.width), "{} {}", back.0, x);
        prop_assert!((back.1 - y).abs() <= slack(height, content.height), "{} {}", back.1, y);
    }

    #[test]
    fn letterboxes_fit_are_centred_and_keep_the_aspect(
        width in 1_usize..4000, height in 1_usize..4000, half in 8_usize..700,
    ) {
        let side = 2 * half;
        let geometry = Geometry::new(GeometryKind::Letterbox, width, height, side);
        let content = geometry.content();
        let (right, bottom) = padding_after(&geometry);
        prop_assert_eq!(content.x + content.width + right, side);
        prop_assert_eq!(content.y + content.height + bottom, side);
        prop_assert!(content.width == side || content.height == side);
        prop_assert!(content.width.is_multiple_of(2) && content.height.is_multiple_of(2));
        prop_assert!(content.x == right && content.y == bottom);
        let ratio = (side as f64 / height as f64).min(side as f64 / width as f64);
        prop_assert!((content.width as f64 - width as f64 * ratio).abs() <= 2.0);
        prop_assert!((content.height as f64 - height as f64 * ratio).abs() <= 2.0);
    }
}

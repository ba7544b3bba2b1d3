/*!
The command that builds the engines of a folder again: with every choice that its manifest tells and
that would not be made anyway, for a command that builds other engines than those that were refused
is worse than none.
*/

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::recipe::{computes_whole, recipes, roles, track_variant_for};
use crate::engine::fp32_pins::Fp32Pins;
use crate::engine::{EngineManifest, PlanRecord, USUAL_POINTS};
use host::shell;
use tensorrt::Version;
use vos::bundle::manifest::Axis;
use vos::bundle::{Manifest, Role};
use vos::platform::{OLDEST_FUSED_SM, Platform, Platforms};
use vos::track_variant::TrackVariant;

/// Where bundles are looked for if nobody names a folder.
const USUAL_BUNDLES: &str = "onnx/bundles";
/// The variable that names other ones.
const BUNDLES_VARIABLE: &str = "SEGTRT_ONNX_DIR";

impl EngineManifest {
    /// The command that builds these engines, into the folder that they were read from. Engines
    /// that no one command builds alike take several, joined by `&&`.
    pub fn rebuild_command(&self) -> String {
        self.rebuild_command_with("")
    }

    /// The same with further flags, such as "--force".
    pub fn rebuild_command_with(&self, more: &str) -> String {
        let usual = self.usual();
        let groups = groups(self);
        let variant = self.track_variant(usual.as_ref());
        let expected = self.expected(variant, usual.as_ref());
        let is_usual = |group: &Group| group.roles.iter().all(|role| expected.contains(role));
        let Some(largest) = largest(&groups) else {
            return self.line(None, &[], variant, usual.as_ref(), more);
        };
        if groups.len() == 1 && is_usual(largest) {
            return self.line(Some(largest), &[], variant, usual.as_ref(), more);
        }
        let lines = groups.iter().map(|group| {
            let missing = |role: &&Role| {
                // An encoder in one piece was asked for in place of its parts, or a segment that
                // answers in place of what the kernels follow.
                let last = || self.bundle.segments().last().and_then(|last| self.plan(last.role));
                let replaced = role.is_encoder_part() && self.plan(Role::Encoder).is_some()
                    || **role == Role::TrackImage && last().is_some();
                std::ptr::eq(group, largest) && self.plan(**role).is_none() && !replaced
            };
            let more_roles = expected.iter().filter(missing).copied();
            let roles: Vec<Role> = group.roles.iter().copied().chain(more_roles).collect();
            self.line(Some(group), &roles, None, usual.as_ref(), more)
        });
        lines.collect::<Vec<_>>().join(" && ")
    }

    /// The command that builds this form of the track step too, alike otherwise.
    pub fn rebuild_command_for(&self, variant: TrackVariant) -> String {
        self.line(largest(&groups(self)), &[], Some(variant), self.usual().as_ref(), "")
    }

    /// The row of the platform table that the build read; none where that table is gone or lacks
    /// it.
    fn usual(&self) -> Option<Platform> {
        let table = Platforms::open(self.sources.platforms.as_deref()).ok()?;
        table.get(&self.platform).cloned()
    }

    /// The form of the track step that a bench runs here; none where there is none.
    fn track_variant(&self, usual: Option<&Platform>) -> Option<TrackVariant> {
        let is_there = |variant: &TrackVariant| self.has_variant(*variant);
        TrackVariant::by_preference(usual.map(|row| row.track_variant)).find(is_there)
    }

    /// The graphs that are built where none is named.
    fn expected(&self, variant: Option<TrackVariant>, usual: Option<&Platform>) -> Vec<Role> {
        let built_for = self.plans.iter().flat_map(|plan| plan.made_by.sm.iter().copied()).min();
        let sm = usual.map(|row| row.sm).or(built_for).unwrap_or(OLDEST_FUSED_SM);
        let usual = usual.map_or(TrackVariant::Padded, |row| row.track_variant);
        let variant = track_variant_for(variant, usual, &self.bundle);
        let all = roles(variant, &self.bundle, sm, self.precision);
        all.into_iter().filter(|role| self.bundle.graph(*role).is_some()).collect()
    }

    /// One command line; `graphs` are named where there are any.
    fn line(
        &self,
        group: Option<&Group>,
        graphs: &[Role],
        variant: Option<TrackVariant>,
        usual: Option<&Platform>,
        more: &str,
    ) -> String {
        let path = |flag: &str, path: &Path| format!("{flag} {}", shell::path(path));
        let model = &self.bundle.model;
        // A row of somebody's own table may have any name.
        let platform = shell::word(&self.platform);
        let mut words = vec![format!("segtrt build-engines --platform {platform}")];
        words.push(format!(
            "--models {} --imgsz {} --precision {}",
            shell::word(&model.name),
            model.imgsz,
            self.precision
        ));
        if !graphs.is_empty() {
            words.push(format!("--graphs {}", names(graphs)));
        }
        let taken_anyway =
            usual.map(|row| track_variant_for(None, row.track_variant, &self.bundle));
        words.extend(
            variant
                .filter(|variant| taken_anyway != Some(*variant))
                .map(|variant| format!("--track-variant {}", variant.name())),
        );
        let most = |symbol| self.plans.iter().map(|plan| most_of(plan, &self.bundle, symbol)).max();
        let objects = most("B").filter(|most| *most > 1);
        words.extend(objects.map(|most| format!("--max-objects {most}")));
        let points = most("P").filter(|most| *most > USUAL_POINTS.len() as i64);
        words.extend(points.map(|most| format!("--prompt-points {most}")));
        words.extend(group.iter().flat_map(|group| group.flags(usual)));
        let table = self.sources.platforms.as_deref().filter(|table| table.is_file());
        words.extend(table.map(|table| path("--platforms", table)));
        words.extend(self.bundle_to_name().map(|bundle| path("--onnx-dir", bundle)));
        words.extend(self.out().map(|root| path("--out", root)));
        words.extend((!more.is_empty()).then(|| more.to_owned()));
        words.join(" ")
    }

    /// The bundle that they were built from, where it is there and would not be found by itself.
    fn bundle_to_name(&self) -> Option<&Path> {
        let bundle = self.sources.bundle.as_deref()?;
        // The flag takes several folders with this sign between them.
        if !bundle.join("manifest.toml").is_file() || bundle.to_string_lossy().contains(':') {
            return None;
        }
        let searched = std::env::var(BUNDLES_VARIABLE).unwrap_or(USUAL_BUNDLES.to_owned());
        let is_found = |root: &str| {
            let root = PathBuf::from(root).canonicalize().ok();
            let whole = bundle.canonicalize().ok();
            root.is_some()
                && (root == whole || root.as_deref() == whole.as_deref().and_then(Path::parent))
        };
        (!searched.split(':').any(is_found)).then_some(bundle)
    }
}

fn names(roles: &[Role]) -> String {
    roles.iter().map(|role| role.name()).collect::<Vec<_>>().join(",")
}

/// Plans that one command builds alike.
struct Group {
    roles: Vec<Role>,
    /// Those of them that were named to compute in fp32 throughout.
    whole: Vec<Role>,
    /// What their kind of engine keeps in fp32 where nobody says; none where it is not known.
    usual_pins: Option<Fp32Pins>,
    choice: Choice,
}

/// What one command chooses for all its plans.
#[derive(Clone, Debug, PartialEq)]
struct Choice {
    strongly_typed: bool,
    /// The pinning of fp32 layers; none if the plans compute in fp32 throughout: then the choice
    /// for other plans is unknown.
    fp32_pins: Option<Fp32Pins>,
    fp32_layers: Vec<String>,
    opt_level: Option<u8>,
    timing_runs: Option<u8>,
    workspace_bytes: u64,
    tactic_bytes: Option<u64>,
    memory_bytes: Option<u64>,
    library_tactics: bool,
    ampere_plus: bool,
}

/// The plans in groups of equal choices, in their order.
fn groups(manifest: &EngineManifest) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for plan in &manifest.plans {
        let one = Group::of(plan, manifest);
        match groups.iter_mut().find(|group| group.goes_with(&one)) {
            Some(group) => group.join(one),
            None => groups.push(one),
        }
    }
    groups
}

/// The one with most plans; of equal ones the first.
fn largest(groups: &[Group]) -> Option<&Group> {
    groups.iter().rev().max_by_key(|group| group.roles.len())
}

impl Group {
    fn of(plan: &PlanRecord, manifest: &EngineManifest) -> Self {
        let settings = &plan.settings;
        let (precision, graphs) = (settings.precision, &settings.graphs);
        let recipe = |strong: bool| {
            let version = Version::from_words(&plan.made_by.tensorrt)?;
            let all = recipes(precision, version, strong).ok()?;
            all.into_iter().find(|recipe| recipe.graphs == graphs)
        };
        let unasked = recipe(false).is_some_and(|recipe| recipe.strongly_typed);
        let usual = recipe(settings.strongly_typed).map(|recipe| recipe.fp32_pins);
        let is_whole = settings.fp32_pins == Fp32Pins::Whole;
        let is_named = is_whole && !computes_whole(precision, plan.role, &manifest.bundle);
        let choice = Choice {
            strongly_typed: settings.strongly_typed && !unasked,
            fp32_pins: (!is_whole).then_some(settings.fp32_pins),
            fp32_layers: settings.fp32_layers.clone(),
            opt_level: settings.opt_level,
            timing_runs: settings.timing_runs,
            workspace_bytes: settings.workspace_bytes,
            tactic_bytes: settings.tactic_bytes,
            memory_bytes: settings.memory_bytes,
            library_tactics: settings.library_tactics,
            ampere_plus: settings.ampere_plus,
        };
        let whole = if is_named { vec![plan.role] } else { Vec::new() };
        Self { roles: vec![plan.role], whole, usual_pins: usual, choice }
    }

    fn goes_with(&self, other: &Self) -> bool {
        let [a, b] = [&self.choice, &other.choice];
        let rest = |choice: &Choice| Choice { fp32_pins: None, ..choice.clone() };
        let fp32_pins =
            a.fp32_pins.is_none() || b.fp32_pins.is_none() || a.fp32_pins == b.fp32_pins;
        fp32_pins && rest(a) == rest(b)
    }

    fn join(&mut self, other: Self) {
        self.roles.extend(other.roles);
        self.whole.extend(other.whole);
        self.choice.fp32_pins = self.choice.fp32_pins.or(other.choice.fp32_pins);
    }

    /// The flags for what would not be chosen anyway.
    fn flags(&self, usual: Option<&Platform>) -> Vec<String> {
        let Self { whole, usual_pins, choice, .. } = self;
        let mut flags = Vec::new();
        let mut flag = |name: &str, value: Option<String>| {
            flags.extend(value.map(|value| format!("--{name} {value}")));
        };
        let mib = |bytes: u64| Some(bytes >> 20).filter(|mib| *mib > 0);
        let workspace = mib(choice.workspace_bytes)
            .filter(|cap| usual.is_none_or(|row| row.workspace_mb != *cap));
        let level =
            choice.opt_level.filter(|level| usual.is_none_or(|row| row.opt_level != *level));
        flag("opt-level", level.map(|level| level.to_string()));
        flag("timing-runs", choice.timing_runs.map(|runs| runs.to_string()));
        flag("workspace-mb", workspace.map(|cap| cap.to_string()));
        flag("tactic-mb", choice.tactic_bytes.and_then(mib).map(|cap| cap.to_string()));
        flag("memory-mb", choice.memory_bytes.and_then(mib).map(|cap| cap.to_string()));
        let fp32_pins =
            choice.fp32_pins.filter(|kept| usual_pins.is_some_and(|usual| usual != *kept));
        let fp32_pins = fp32_pins.and_then(|kept| kept.to_possible_value());
        flag("fp32-pins", fp32_pins.map(|value| value.get_name().to_owned()));
        flag("fp32-graphs", (!whole.is_empty()).then(|| names(whole)));
        let layers = (!choice.fp32_layers.is_empty()).then(|| choice.fp32_layers.join(","));
        flag("fp32-layers", layers.map(|layers| shell::word(&layers)));
        let switches = [
            ("--strongly-typed", choice.strongly_typed),
            ("--library-tactics", choice.library_tactics),
            ("--ampere-plus", choice.ampere_plus),
        ];
        flags.extend(switches.into_iter().filter(|(_, on)| *on).map(|(name, _)| name.to_owned()));
        flags
    }
}

/// The most objects (`B`) or points (`P`) that a plan has a profile for; one where its graph takes none.
fn most_of(plan: &PlanRecord, bundle: &Manifest, symbol: &str) -> i64 {
    let is_wanted = |axis: &Axis| *axis == Axis::Symbol(symbol.to_owned());
    let inputs = bundle.graph(plan.role).into_iter().flat_map(|graph| &graph.inputs);
    let places =
        inputs.filter_map(|input| Some((&input.name, input.shape.iter().position(is_wanted)?)));
    let extents = places.flat_map(|(name, at)| {
        let shapes = plan.settings.profiles.iter().flat_map(|profile| &profile.shapes);
        let of_input = shapes.filter(move |(input, _)| input == name);
        of_input.filter_map(move |(_, shape)| shape.get(at).copied())
    });
    extents.max().unwrap_or(1)
}

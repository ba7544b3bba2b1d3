/*!
An engine with the optimisation profiles for which it was built.
*/

use anyhow::{Context, Result};

use crate::engine::PlanRecord;
use execution::BoundEngine;
use tensorrt::Engine;
use vos::bundle::Role;

/// An engine with the shapes of its profiles. Clones share its weights.
#[derive(Clone)]
pub struct LoadedEngine {
    /// The engine.
    pub engine: Engine,
    /// What it does.
    pub role: Role,
    /// Shapes of the inputs with open extents, for each profile; a single empty one where all
    /// shapes are fixed.
    pub profiles: Vec<Vec<(String, Vec<i64>)>>,
}

impl LoadedEngine {
    /// With the profiles of its record.
    pub fn new(engine: Engine, record: &PlanRecord) -> Self {
        let profiles = match record.settings.profiles.as_slice() {
            [] => vec![vec![]],
            profiles => profiles.iter().map(|profile| profile.shapes.clone()).collect(),
        };
        Self { engine, role: record.role, profiles }
    }

    /// Whether all its shapes are fixed.
    pub fn is_fixed(&self) -> bool {
        self.profiles.iter().all(Vec::is_empty)
    }

    /// Bytes of scratch memory that any of its profiles needs.
    pub fn scratch_bytes(&self) -> u64 {
        BoundEngine::scratch_bytes(&self.engine).unwrap_or(0)
    }

    /// The profile that takes inputs of these shapes, if one does; inputs that it does not name are
    /// fixed.
    pub fn takes(&self, wanted: &[(&str, Vec<i64>)]) -> Option<usize> {
        self.profiles.iter().position(|profile| {
            profile.iter().all(|(name, shape)| {
                wanted.iter().all(|(input, wanted)| input != name || wanted == shape)
            })
        })
    }

    /// The same of an engine that must have one.
    ///
    /// # Errors
    /// It has none: it was built for other runs.
    pub fn profile_for(&self, wanted: &[(&str, Vec<i64>)]) -> Result<usize> {
        self.takes(wanted).with_context(|| {
            let wanted: Vec<String> =
                wanted.iter().map(|(name, shape)| format!("{name} {shape:?}")).collect();
            format!(
                "the {} engine has no profile for {}; build the engines again with: segtrt \
                 build-engines --force",
                self.role.name(),
                wanted.join(", ")
            )
        })
    }
}

//! Plans that run the bundle's own graphs in ONNX Runtime.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use runtime::engine::ProfileShapes;
use vos::bundle::manifest::Axis;
use vos::bundle::{DType, Role};
use vos::precision::Precision;

use super::{Engines, FLOATS, extent, words};

impl Engines {
    /// Writes a folder of plans that run the bundle's own graphs in ONNX Runtime; each behaves as
    /// its word says. Plans of fp16 take and give halves.
    pub fn write_live(&self, precision: Precision, plans: &[(Role, &str)]) -> PathBuf {
        let (dir, mut engines) = self.empty(precision);
        for (role, behave) in plans {
            let profiles = self.record(*role, Path::new("")).settings.profiles;
            let path = dir.join(format!("{}.plan", role.name()));
            std::fs::write(&path, self.live_plan(precision, *role, behave, &profiles)).unwrap();
            engines.set(self.record(*role, &path));
        }
        engines.write(&dir).unwrap();
        dir
    }

    fn live_plan(
        &self,
        precision: Precision,
        role: Role,
        behave: &str,
        profiles: &[ProfileShapes],
    ) -> String {
        let graph = self.manifest.graph(role).unwrap();
        let file = self.bundle.join(&graph.file);
        let mut text = format!(
            "memory 4096\nprofiles {}\nbehave {behave}\nonnx {}\n",
            profiles.len().max(1),
            file.display()
        );
        let all = || {
            let inputs = graph.inputs.iter().map(|tensor| ("in", tensor));
            inputs.chain(graph.outputs.iter().map(|tensor| ("out", tensor)))
        };
        for (way, tensor) in all() {
            let half = precision == Precision::Fp16 && !FLOATS.contains(&tensor.name.as_str());
            let (number, graph) = match (tensor.dtype, half) {
                (DType::I32, _) => (3, "-"),
                // Whatever the precision: a type that the graph itself has.
                (DType::F16, _) => (1, "f16"),
                (_, true) => (1, "-"),
                _ => (0, "-"),
            };
            let dims: Vec<i64> = tensor.shape.iter().map(|axis| extent(axis, &[])).collect();
            writeln!(text, "{way} {} {number} {graph} {}", tensor.name, words(&dims)).unwrap();
        }
        for (at, profile) in profiles.iter().enumerate() {
            // What each symbol stands for in this profile.
            let mut known = vec![("B".to_owned(), 1)];
            for (name, shape) in &profile.shapes {
                let declared = &graph.input(name).unwrap().shape;
                for (axis, extent) in declared.iter().zip(shape) {
                    if let Axis::Symbol(symbol) = axis {
                        known.push((symbol.clone(), *extent));
                    }
                }
            }
            for (_, tensor) in all() {
                let dims: Vec<i64> = tensor.shape.iter().map(|axis| extent(axis, &known)).collect();
                writeln!(text, "shape {at} {} {}", tensor.name, words(&dims)).unwrap();
            }
        }
        text
    }
}

/*!
`bench --memory`: the device's memory by use, and what TensorRT says of each engine.
*/

use std::collections::BTreeMap;

use host::screen_table::{self, number};
use vos::record::ModelMemory;

/// The tables for a terminal, or why there are none.
pub fn render(models: &BTreeMap<String, ModelMemory>) -> String {
    let known: Vec<_> =
        models.iter().filter_map(|(tag, memory)| Some((tag, memory.device.as_ref()?))).collect();
    if known.is_empty() {
        return "no memory by use: ONNX Runtime does not tell it; --backend tensorrt does"
            .to_owned();
    }
    let mut uses = screen_table::table(["model", "memory", "MiB"], 2..3);
    let mut engines =
        screen_table::table(["model", "engine", "plan MiB", "activations and workspace MiB"], 2..4);
    for (tag, memory) in known {
        for (name, mib) in memory.uses() {
            uses.add_row([tag.clone(), name.to_owned(), number(mib, 1)]);
        }
        for engine in &memory.engines {
            let numbers = [engine.plan, engine.activations].map(|mib| number(Some(mib), 1));
            let [plan, activations] = numbers;
            engines.add_row([tag.clone(), engine.role.clone(), plan, activations]);
        }
    }
    format!("{uses}\n{engines}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use vos::record::{DeviceMemoryUse, EngineMemory};

    #[test]
    fn every_use_and_engine_has_a_line() {
        let engine = EngineMemory { role: "track".to_owned(), plan: 12.5, activations: 61.25 };
        let device = DeviceMemoryUse { weights: 28.1, engines: vec![engine], ..Default::default() };
        let memory = ModelMemory { device: Some(device), ..Default::default() };
        let told = render(&BTreeMap::from([("m_points".to_owned(), memory)]));
        for part in ["weights", "28.1", "memory bank", "context and libraries", "track", "61.2"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let none = BTreeMap::from([("m_points".to_owned(), ModelMemory::default())]);
        assert!(render(&none).contains("--backend tensorrt"));
    }
}

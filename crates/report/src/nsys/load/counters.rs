/*!
Readings of the GPUs' counters, if nsys sampled them (`--gpu-metrics-devices`).
*/

use std::collections::HashMap;

use anyhow::Result;

use super::Loader;
use crate::nsys::trace::{Name, Sample, Trace};

/// The tables of readings and of counter names.
const READINGS: &str = "GPU_METRICS";
const NAMES: &str = "TARGET_INFO_GPU_METRICS";
/// The lowest byte of an event type is the GPU.
const GPU: i64 = 0xff;

impl Loader<'_> {
    /// Readings of counters in order of time; none if the export has no such table.
    pub(super) fn counters(&self, trace: &mut Trace) -> Result<()> {
        let database = self.database;
        // Some exports have an empty table.
        if !database.has(READINGS) || !database.has(NAMES) {
            return Ok(());
        }
        database.require(NAMES, &["typeId", "typeName", "metricId", "metricName"])?;
        database.require(READINGS, &["timestamp", "typeId", "metricId", "value"])?;
        let sql = format!("SELECT typeId, metricId, typeName, metricName FROM {NAMES}");
        let named = database.rows(&sql, |row| {
            let key: (i64, i64) = (row.get(0)?, row.get(1)?);
            Ok((key, row.get::<_, String>(2)?, row.get::<_, String>(3)?))
        })?;
        let named: HashMap<(i64, i64), (Name, Name)> = named
            .into_iter()
            .map(|(key, of, counter)| (key, (trace.names.place(&of), trace.names.place(&counter))))
            .collect();
        let sql = format!("SELECT timestamp, typeId, metricId, value FROM {READINGS}");
        let rows = database.rows(&sql, |row| {
            Ok((row.get::<_, Option<i64>>(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })?;
        let read = rows.into_iter().filter_map(|(time, of, counter, value): (_, i64, i64, i64)| {
            let (gpu, counter) = *named.get(&(of, counter))?;
            Some(Sample { time: time?, device: of & GPU, gpu, counter, value })
        });
        let mut samples: Vec<Sample> = read.collect();
        if !samples.is_empty() {
            samples.sort_by_key(|sample| sample.time);
            trace.samples = Some(samples);
        }
        Ok(())
    }
}

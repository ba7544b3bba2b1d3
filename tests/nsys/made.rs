//! Exports as nsys writes them, made by hand: its tables and columns, and only those tables that have rows.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::Connection;

/// A process, as nsys writes it into thread numbers.
const PROCESS: i64 = 100 << 24;
/// Its first thread.
pub const MAIN: i64 = PROCESS | 1;
/// Another thread.
pub const OTHER: i64 = PROCESS | 2;
/// The number of the domain `segtrt`; 0 is the default domain.
pub const SEGTRT: i64 = 1;

const NVTX: &str = "CREATE TABLE IF NOT EXISTS NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, \
                    eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, color INTEGER, \
                    text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId \
                    INTEGER)";
const RUNTIME: &str = "CREATE TABLE IF NOT EXISTS CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, \
    end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, \
    nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER)";
const KERNEL: &str = "CREATE TABLE IF NOT EXISTS CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT \
                      NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER \
                      NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid \
                      INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, \
                      mangledName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX \
                      INTEGER, blockY INTEGER, blockZ INTEGER, graphNodeId INTEGER)";
const MEMCPY: &str = "CREATE TABLE IF NOT EXISTS CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT \
                      NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER \
                      NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid \
                      INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, srcKind \
                      INTEGER, dstKind INTEGER, srcDeviceId INTEGER, dstDeviceId INTEGER, \
                      greenContextId INTEGER)";
const MEMSET: &str = "CREATE TABLE IF NOT EXISTS CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, \
    end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, \
    correlationId INTEGER, globalPid INTEGER, value INTEGER NOT NULL, bytes INTEGER NOT NULL, memKind INTEGER, \
    greenContextId INTEGER)";
const GRAPH: &str = "CREATE TABLE IF NOT EXISTS CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER NOT NULL, \
    end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, \
    correlationId INTEGER, globalPid INTEGER, graphId INTEGER NOT NULL, graphExecId INTEGER NOT NULL)";

/// An export that is being written.
pub struct Made {
    connection: Connection,
    strings: HashMap<String, i64>,
}

impl Made {
    /// An export without events.
    pub fn new(path: &Path) -> Self {
        let connection = Connection::open(path).unwrap();
        // Thousands of inserts, each of which would wait for the disk.
        connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY").unwrap();
        connection
            .execute_batch(
                // Each row would otherwise wait for the disk.
                "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY;
                CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
                INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_NAME', 'NVIDIA Nsight Systems'),
                    ('EXPORT_PRODUCT_VERSION', '2023.4.4.54'), ('EXPORT_SCHEMA_VERSION', '3.7.2'),
                    ('EXPORT_SCHEMA_VERSION_MAJOR', '3'), ('EXPORT_SCHEMA_VERSION_MINOR', '7'),
                    ('EXPORT_SCHEMA_VERSION_MICRO', '2');
                CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
                CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
                INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (1, 'CUDA_MEMCPY_KIND_HTOD', 'Host-to-Device'),
                    (2, 'CUDA_MEMCPY_KIND_DTOH', 'Device-to-Host');
                CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
                INSERT INTO ENUM_CUDA_MEM_KIND VALUES (0, '', 'Pageable'), (1, '', 'Pinned'),
                    (2, '', 'Device'), (4, '', 'Managed');",
            )
            .unwrap();
        Self { connection, strings: HashMap::new() }
    }

    /// Any SQL.
    pub fn sql(&self, sql: &str) {
        self.connection.execute_batch(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    }

    /// The number of a string.
    pub fn string(&mut self, text: &str) -> i64 {
        if let Some(id) = self.strings.get(text) {
            return *id;
        }
        let id = self.strings.len() as i64 + 1;
        self.strings.insert(text.to_owned(), id);
        self.connection.execute("INSERT INTO StringIds VALUES (?1, ?2)", (id, text)).unwrap();
        id
    }

    /// The domain `segtrt`.
    pub fn domain(&mut self) {
        self.sql(NVTX);
        self.sql(&format!(
            "INSERT INTO NVTX_EVENTS (start, eventType, text, globalTid, domainId) VALUES (0, 75, \
             'segtrt', {MAIN}, {SEGTRT})"
        ));
    }

    /// A range of event type `kind` (59 pushed, 60 started) that ends on `end_thread` if that is another.
    pub fn event(
        &mut self,
        kind: i64,
        name: &str,
        time: [i64; 2],
        domain: i64,
        end_thread: Option<i64>,
    ) {
        self.sql(NVTX);
        let id = self.string(name);
        self.connection
            .execute(
                "INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, endGlobalTid, textId, domainId) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                (time[0], time[1], kind, MAIN, end_thread, id, domain),
            )
            .unwrap();
    }

    /// A pushed range of the domain `segtrt` on the main thread.
    pub fn range(&mut self, name: &str, start: i64, end: i64) {
        self.event(59, name, [start, end], SEGTRT, None);
    }

    /// A call of the API.
    pub fn call(&mut self, name: &str, start: i64, end: i64, number: i64, thread: i64) {
        self.sql(RUNTIME);
        let id = self.string(name);
        self.sql(&format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({start}, {end}, 0, {thread}, \
             {number}, {id}, 0, NULL)"
        ));
    }

    /// A kernel.
    pub fn kernel(&mut self, name: &str, start: i64, end: i64, number: i64) {
        self.kernel_on(0, name, start, end, number);
    }

    /// A kernel on one of several GPUs.
    pub fn kernel_on(&mut self, device: i64, name: &str, start: i64, end: i64, number: i64) {
        self.sql(KERNEL);
        let (long, short) = (self.string(&format!("{name}(int)")), self.string(name));
        self.sql(&format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({start}, {end}, {device}, 1, 7, \
             {number}, {PROCESS}, {long}, {short}, NULL, 1, 1, 1, 1, 1, 1, NULL)"
        ));
    }

    /// A copy of `kind` (1 to the device, 2 to the host).
    pub fn copy(&mut self, kind: i64, bytes: i64, start: i64, end: i64, number: i64) {
        self.copy_of([None, None], kind, bytes, [start, end], number);
    }

    /// The same between two kinds of memory (0 pageable, 1 pinned, 2 the device's).
    pub fn copy_of(
        &mut self,
        memory: [Option<i64>; 2],
        kind: i64,
        bytes: i64,
        [start, end]: [i64; 2],
        number: i64,
    ) {
        self.sql(MEMCPY);
        let [from, to] = memory.map(|kind| kind.map_or("NULL".to_owned(), |kind| kind.to_string()));
        self.sql(&format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES ({start}, {end}, 0, 1, 7, {number}, \
             {PROCESS}, {bytes}, {kind}, {from}, {to}, NULL, NULL, NULL)"
        ));
    }

    /// Memory that is set.
    pub fn set(&mut self, bytes: i64, start: i64, end: i64, number: i64) {
        self.set_of(2, bytes, [start, end], number);
    }

    /// The same of a kind of memory (4 managed).
    pub fn set_of(&mut self, kind: i64, bytes: i64, [start, end]: [i64; 2], number: i64) {
        self.sql(MEMSET);
        self.sql(&format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES ({start}, {end}, 0, 1, 7, {number}, \
             {PROCESS}, 0, {bytes}, {kind}, NULL)"
        ));
    }

    /// A CUDA graph that is traced as a whole.
    pub fn graph(&mut self, graph: i64, start: i64, end: i64, number: i64) {
        self.sql(GRAPH);
        self.sql(&format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES ({start}, {end}, 0, 1, 7, \
             {number}, {PROCESS}, {graph}, {graph})"
        ));
    }

    /// The name of GPU 0.
    pub fn gpu(&self, name: &str) {
        self.sql(
            "CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name \
                  TEXT, cuDevice INTEGER)",
        );
        self.sql(&format!("INSERT INTO TARGET_INFO_GPU VALUES (0, 5, '{name}', 0)"));
    }

    /// Readings of a counter of GPU `device`, each at its time.
    pub fn counter(&self, device: i64, id: i64, name: &str, readings: &[(i64, i64)]) {
        self.sql(
            "CREATE TABLE IF NOT EXISTS TARGET_INFO_GPU_METRICS (typeId INTEGER NOT NULL, sourceId INTEGER NOT NULL, \
             typeName TEXT NOT NULL, metricId INTEGER NOT NULL, metricName TEXT NOT NULL);
             CREATE TABLE IF NOT EXISTS GPU_METRICS (timestamp INTEGER, typeId INTEGER NOT NULL, metricId INTEGER NOT NULL, \
             value INTEGER NOT NULL)",
        );
        let of = (1 << 40) + device;
        self.sql(&format!(
            "INSERT INTO TARGET_INFO_GPU_METRICS VALUES ({of}, 7, 'GPU Metrics [Made Up]', {id}, '{name}')"
        ));
        for (time, value) in readings {
            self.sql(&format!("INSERT INTO GPU_METRICS VALUES ({time}, {of}, {id}, {value})"));
        }
    }

    /// What the program wrote to standard error.
    pub fn stderr(&mut self, text: &str) {
        self.sql("CREATE TABLE ProcessStreams (globalPid INTEGER, filenameId INTEGER, contentId INTEGER)");
        let (file, content) = (self.string("/tmp/streams/pid_100_stderr.log"), self.string(text));
        self.sql(&format!("INSERT INTO ProcessStreams VALUES ({PROCESS}, {file}, {content})"));
    }
}

/// Two frames, and everything around which one could be wrong:
///
/// ```text
/// CPU  pipeline 1000────────────────────────2000      6000──────────────────7000
///        encoder 1100─1300                              encoder 6100─6300
///                 ↓ 1                                     memset ↓ 9   ↓ 10
///        track 1400──────────1800                         (plain 6105─6290 in it)
///          inner 1450─1500  ↓ 3
///                 ↓ 2
/// GPU       1: 1150────1650  2: 1700──1900  3: 1950─2050   9: 6130─6140  10: 6200──6900
/// ```
///
/// Call 5 fills its range from end to end (it is inside), 6 begins before its range and 7 ends
/// after it (they are not), 8 is on another thread; `nothing` launches nothing; `se` is started and
/// ended on one thread, `se_other` ends on another.
pub fn frames(path: &Path) -> Made {
    let launch = "cudaLaunchKernel_v7000";
    let mut made = Made::new(path);
    made.domain();
    made.gpu("Made Up 1");
    made.range("pipeline", 1000, 2000);
    made.range("encoder", 1100, 1300);
    made.range("track", 1400, 1800);
    made.range("inner", 1450, 1500);
    made.range("nothing", 1850, 1900);
    made.call(launch, 1110, 1120, 1, MAIN);
    made.kernel("encode", 1150, 1650, 1);
    made.call(launch, 1460, 1470, 2, MAIN);
    made.kernel("attend", 1700, 1900, 2);
    made.call("cudaMemcpyAsync_v3020", 1600, 1620, 3, MAIN);
    made.copy(2, 1_000_000, 1950, 2050, 3);
    made.call("cudaStreamSynchronize_v3020", 1910, 1990, 4, MAIN);
    made.range("exact", 3000, 3100);
    made.call(launch, 3000, 3100, 5, MAIN);
    made.kernel("encode", 3200, 3300, 5);
    made.range("straddled", 3500, 3600);
    made.call(launch, 3490, 3510, 6, MAIN);
    made.kernel("encode", 3700, 3800, 6);
    made.range("straddled", 3900, 4000);
    made.call(launch, 3990, 4010, 7, MAIN);
    made.kernel("encode", 4050, 4150, 7);
    made.range("pipeline", 5000, 5500);
    made.call(launch, 5100, 5110, 8, OTHER);
    made.kernel("encode", 5200, 5300, 8);
    made.range("pipeline", 6000, 7000);
    made.range("encoder", 6100, 6300);
    made.call("cudaMemsetAsync_v3020", 6110, 6120, 9, MAIN);
    made.set(4096, 6130, 6140, 9);
    made.call(launch, 6130, 6135, 10, MAIN);
    made.kernel("encode", 6200, 6900, 10);
    made.event(60, "se", [6000, 7100], 0, None);
    made.event(60, "se_other", [6000, 7100], 0, Some(OTHER));
    made.sql(&format!(
        "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId) VALUES (6105, \
         6290, 59, 'plain', {MAIN}, {SEGTRT})"
    ));
    made
}

/// Copies and fills of every kind of memory, by functions that wait and by those that do not.
pub fn copies(path: &Path) -> Made {
    let mut made = Made::new(path);
    let (pageable, pinned, device) = (Some(0), Some(1), Some(2));
    let large = 1_000_000;
    made.call("cudaMemcpyAsync_v3020", 100, 110, 1, MAIN);
    made.copy_of([pageable, device], 1, large, [200, 300], 1);
    made.call("cudaMemcpyAsync_v3020", 310, 320, 2, MAIN);
    made.copy_of([pinned, device], 1, large, [330, 380], 2);
    made.call("cudaMemcpy_v3020", 400, 520, 3, MAIN);
    made.copy_of([pinned, device], 1, large, [410, 510], 3);
    // It returns before the copy is complete.
    made.call("cudaMemcpy_v3020", 600, 620, 4, MAIN);
    made.copy_of([pageable, device], 1, 4096, [605, 615], 4);
    made.call("cudaMemcpy_v3020", 700, 760, 5, MAIN);
    made.copy_of([device, pageable], 2, 4096, [705, 750], 5);
    made.call("cudaMemset_v3020", 800, 830, 6, MAIN);
    made.set_of(4, 8192, [805, 825], 6);
    made.call("cudaMemset_v3020", 900, 910, 7, MAIN);
    made.set_of(2, 8192, [905, 925], 7);
    made.call("cudaMemsetAsync_v3020", 1000, 1010, 8, MAIN);
    made.set_of(4, 8192, [1005, 1025], 8);
    made
}

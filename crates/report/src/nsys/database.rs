/*!
An exported report as a database. Checks that it is an export of nsys and complete, and finds tables
and columns.
*/

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rusqlite::{Connection, OpenFlags, Row};

/// The first bytes of every SQLite file.
pub const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Length of SQLite's header.
const HEADER: usize = 100;
/// Tables of nsys's exports; each export has at least one of them.
const NSYS_TABLES: [&str; 3] = ["META_DATA_EXPORT", "StringIds", "TARGET_INFO_SESSION_START_TIME"];

/// An opened export.
pub struct Database {
    connection: Connection,
    path: PathBuf,
    tables: BTreeMap<String, BTreeSet<String>>,
}

impl Database {
    /// Opens `path` for reading.
    ///
    /// # Errors
    /// The file cannot be read, is not SQLite, is truncated, or is not an export of nsys.
    pub fn open(path: &Path) -> Result<Self> {
        check_whole(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)
            .with_context(|| format!("cannot open {}", path.display()))?;
        let mut database = Self { connection, path: path.to_owned(), tables: BTreeMap::new() };
        // A view is a query, and may never end.
        let views: Vec<String> = database
            .rows("SELECT name FROM sqlite_master WHERE type = 'view' LIMIT 1", |row| row.get(0))?;
        if let Some(view) = views.first() {
            bail!(
                "{}: {view:?} is a view; expected an export of nsys, which has only tables; export \
                 the report again with: nsys export --type sqlite REPORT.nsys-rep",
                path.display()
            );
        }
        let names: Vec<String> = database
            .rows("SELECT name FROM sqlite_master WHERE type = 'table'", |row| row.get(0))?;
        for name in names {
            let sql = format!("SELECT name FROM pragma_table_info({})", quoted(&name));
            let columns: Vec<String> = database.rows(&sql, |row| row.get(0))?;
            database.tables.insert(name, columns.into_iter().collect());
        }
        if !NSYS_TABLES.iter().any(|table| database.has(table)) {
            let found: Vec<&str> = database.tables.keys().take(6).map(String::as_str).collect();
            bail!(
                "{} is not an export of nsys: found {}, expected tables such as {}; export a \
                 report with: nsys export --type sqlite REPORT.nsys-rep",
                path.display(),
                if found.is_empty() { "no table".to_owned() } else { found.join(", ") },
                NSYS_TABLES.join(", ")
            );
        }
        Ok(database)
    }

    /// Whether the table exists. Exports omit empty tables.
    pub fn has(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    /// The first of `columns` that the table has, as SQL; `NULL` if it has none of them.
    pub fn column<'a>(&self, table: &str, columns: &[&'a str]) -> &'a str {
        let there = self.tables.get(table);
        let found = columns.iter().find(|column| there.is_some_and(|t| t.contains(**column)));
        found.copied().unwrap_or("NULL")
    }

    /// Checks that a table has the columns that its rows need.
    ///
    /// # Errors
    /// The first missing column, with the exporter.
    pub fn require(&self, table: &str, columns: &[&str]) -> Result<()> {
        for column in columns {
            if self.column(table, &[column]) == "NULL" {
                let there = self.tables.get(table).into_iter().flatten();
                let there: Vec<&str> = there.map(String::as_str).collect();
                bail!(
                    "{}: the table {table} has no column {column}; it has {}. Its exporter is {}, \
                     whose schema this segtrt does not know; export the report again with another \
                     release of nsys",
                    self.path.display(),
                    there.join(", "),
                    self.exporter()
                );
            }
        }
        Ok(())
    }

    /// All rows of a query.
    ///
    /// # Errors
    /// The file is damaged, or a value has another type than expected.
    pub fn rows<T>(
        &self,
        sql: &str,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let query = || -> rusqlite::Result<Vec<T>> {
            self.connection.prepare(sql)?.query_map([], read)?.collect()
        };
        query().with_context(|| {
            format!(
                "cannot read {}: it is damaged or not an export of nsys; export the report again \
                 with: nsys export --type sqlite --force-overwrite true REPORT.nsys-rep",
                self.path.display()
            )
        })
    }

    /// A value from the export's description of itself.
    pub fn exported(&self, name: &str) -> Option<String> {
        self.described("META_DATA_EXPORT", name)
    }

    /// A value from the export's description of the capture.
    pub fn captured(&self, name: &str) -> Option<String> {
        self.described("META_DATA_CAPTURE", name)
    }

    /// "NVIDIA Nsight Systems 2023.4.4.54 (schema 3.7.2)".
    pub fn exporter(&self) -> String {
        let or = |value: Option<String>, other: &str| value.unwrap_or_else(|| other.to_owned());
        format!(
            "{} {} (schema {})",
            or(self.exported("EXPORT_PRODUCT_NAME"), "Nsight Systems"),
            or(self.exported("EXPORT_PRODUCT_VERSION"), "of unknown version"),
            or(self.exported("EXPORT_SCHEMA_VERSION"), "unknown")
        )
    }

    fn described(&self, table: &str, name: &str) -> Option<String> {
        if self.column(table, &["value"]) == "NULL" {
            return None;
        }
        let sql = format!("SELECT value FROM {table} WHERE name = {} LIMIT 1", quoted(name));
        self.rows(&sql, |row| row.get::<_, Option<String>>(0)).ok()?.into_iter().next().flatten()
    }
}

/// Text as an SQL literal.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Compares the file's length with SQLite's header, so that an incomplete copy is not taken for a
/// short report.
fn check_whole(path: &Path) -> Result<()> {
    let open = || -> std::io::Result<(Vec<u8>, u64)> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut header = Vec::new();
        file.by_ref().take(HEADER as u64).read_to_end(&mut header)?;
        Ok((header, length))
    };
    let (header, length) = open().with_context(|| {
        format!("cannot read {}; name a report (.nsys-rep) or its export (.sqlite)", path.display())
    })?;
    if length == 0 {
        bail!(
            "{} is empty: the export or its copy was interrupted; export the report again",
            path.display()
        );
    }
    if !header.starts_with(MAGIC) {
        bail!(
            "{} is not an SQLite file; expected a report (.nsys-rep) or its export by nsys export \
             --type sqlite",
            path.display()
        );
    }
    let expected = expected_length(&header);
    if header.len() < HEADER || expected.is_some_and(|expected| length < expected) {
        bail!(
            "{} is truncated: {length} bytes found, {} expected; copy or export it again",
            path.display(),
            expected.unwrap_or(HEADER as u64)
        );
    }
    Ok(())
}

/// Page size times number of pages, if the header's number of pages is up to date.
fn expected_length(header: &[u8]) -> Option<u64> {
    let word = |at: usize| Some(u32::from_be_bytes(*header.get(at..)?.first_chunk()?));
    let page = match u16::from_be_bytes(*header.get(16..)?.first_chunk()?) {
        1 => 65_536,
        bytes => u64::from(bytes),
    };
    let pages = u64::from(word(28)?);
    (word(24)? == word(92)? && pages > 0).then_some(page * pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &Path) -> String {
        format!("{:#}", Database::open(path).err().unwrap())
    }

    fn export(path: &Path) {
        let connection = Connection::open(path).unwrap();
        // Thousands of inserts, each of which would wait for the disk.
        connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY").unwrap();
        let sql = "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
            INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', '2024.1'), ('EXPORT_SCHEMA_VERSION', '3.9');
            CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER);";
        connection.execute_batch(sql).unwrap();
        for at in 0..2000 {
            connection.execute("INSERT INTO NVTX_EVENTS VALUES (?1, ?1)", [at]).unwrap();
        }
    }

    #[test]
    fn what_is_no_export_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.sqlite");
        assert!(refused(&path).contains("report.sqlite"));
        std::fs::write(&path, "").unwrap();
        assert!(refused(&path).contains("is empty"));
        std::fs::write(&path, "video,object\n").unwrap();
        assert!(refused(&path).contains("is not an SQLite file"));
        std::fs::write(&path, MAGIC).unwrap();
        assert!(refused(&path).contains("is truncated"));
        std::fs::remove_file(&path).unwrap();
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE songs (name)").unwrap();
        let error = refused(&path);
        assert!(error.contains("not an export of nsys: found songs, expected"), "{error}");
    }

    #[test]
    fn an_export_that_is_cut_off_says_how_much_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.sqlite");
        export(&path);
        let whole = std::fs::read(&path).unwrap();
        assert!(Database::open(&path).is_ok());
        std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let error = refused(&path);
        let (found, expected) = (whole.len() / 2, whole.len());
        assert!(error.contains(&format!("{found} bytes found, {expected} expected")), "{error}");
    }

    #[test]
    fn tables_columns_and_the_exporter_are_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("it's.sqlite");
        export(&path);
        let database = Database::open(&path).unwrap();
        assert!(database.has("NVTX_EVENTS") && !database.has("CUPTI_ACTIVITY_KIND_KERNEL"));
        assert_eq!(database.column("NVTX_EVENTS", &["text", "start"]), "start");
        assert_eq!(database.column("NVTX_EVENTS", &["text"]), "NULL");
        assert_eq!(database.column("NONE", &["text"]), "NULL");
        assert_eq!(database.exporter(), "Nsight Systems 2024.1 (schema 3.9)");
        assert_eq!(database.captured("anything"), None);
        let error =
            database.require("NVTX_EVENTS", &["start", "globalTid"]).unwrap_err().to_string();
        assert!(error.contains("no column globalTid; it has end, start"), "{error}");
        assert!(error.contains("2024.1"), "{error}");
    }
}

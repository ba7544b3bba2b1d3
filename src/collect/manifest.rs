/*!
`collected.json`: where each fetched folder came from, so that two machines' folders of one name
never mix.
*/

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use vos::files::atomic;

const FILE_NAME: &str = "collected.json";
const FORMAT: &str = "segtrt collected 1";

/// What is known of one folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The machine, as given to ssh.
    pub host: String,
    /// The folder's whole path there.
    pub path: String,
    /// When it was last asked for, RFC 3339.
    pub collected: String,
    /// Everything that was listed there is here.
    pub complete: bool,
    /// Files listed there.
    pub files: u64,
    /// All checksums were compared.
    pub verified: bool,
}

/// The folders of one output folder.
#[derive(Debug, Serialize, Deserialize)]
pub struct Manifest {
    format: String,
    folders: BTreeMap<String, Entry>,
    #[serde(skip)]
    out: PathBuf,
}

impl Manifest {
    /// Reads the manifest of `out`; an empty one where there is none.
    ///
    /// # Errors
    /// A file that is not readable or of another format.
    pub fn open(out: &Path) -> Result<Self> {
        let path = out.join(FILE_NAME);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let (format, folders) = (FORMAT.to_owned(), BTreeMap::new());
                return Ok(Self { format, folders, out: out.to_owned() });
            }
            Err(error) => return Err(error).context(format!("cannot read {}", path.display())),
        };
        let advice =
            || format!("{} is damaged; move it away or choose another --out", path.display());
        let mut manifest: Self = serde_json::from_slice(&bytes).with_context(advice)?;
        if manifest.format != FORMAT {
            bail!("{}: found format {:?}, expected {FORMAT:?}", path.display(), manifest.format);
        }
        manifest.out = out.to_owned();
        Ok(manifest)
    }

    /// Gives the folder `name` to `entry`, on disk before its first file comes.
    ///
    /// # Errors
    /// The folder holds something else.
    pub fn claim(&mut self, name: &str, entry: Entry) -> Result<PathBuf> {
        let folder = self.out.join(name);
        match self.folders.get(name) {
            Some(old) if (&old.host, &old.path) != (&entry.host, &entry.path) => bail!(
                "{} holds files from {}:{}; separate them with --by-host or another --out",
                folder.display(),
                old.host,
                old.path
            ),
            None if folder.exists() => bail!(
                "{} exists and was not collected by this command; choose another --out, or move it away",
                folder.display()
            ),
            _ => {}
        }
        // The record first: a folder without one would be taken for somebody else's.
        self.record(name, entry)?;
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(folder)
    }

    /// Writes what became of a folder.
    ///
    /// # Errors
    /// The disk is full or not writable.
    pub fn record(&mut self, name: &str, entry: Entry) -> Result<()> {
        self.folders.insert(name.to_owned(), entry);
        atomic::write(&self.out.join(FILE_NAME), |out| {
            serde_json::to_writer_pretty(&mut *out, &self)?;
            Ok(out.write_all(b"\n")?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(host: &str) -> Entry {
        Entry {
            host: host.into(),
            path: "/data/x".into(),
            collected: "2026-01-01T00:00:00Z".into(),
            complete: false,
            files: 3,
            verified: true,
        }
    }

    #[test]
    fn a_folder_belongs_to_its_first_machine() {
        let out = tempfile::tempdir().unwrap();
        let mut manifest = Manifest::open(out.path()).unwrap();
        assert_eq!(manifest.claim("x", entry("a")).unwrap(), out.path().join("x"));
        let mut again = Manifest::open(out.path()).unwrap();
        again.claim("x", entry("a")).unwrap();
        let error = again.claim("x", entry("b")).unwrap_err().to_string();
        assert!(
            error.contains("holds files from a:/data/x") && error.contains("--by-host"),
            "{error}"
        );
        again.claim("b/x", entry("b")).unwrap();

        std::fs::create_dir(out.path().join("mine")).unwrap();
        let error = again.claim("mine", entry("a")).unwrap_err().to_string();
        assert!(error.contains("was not collected by this command"), "{error}");
    }

    #[test]
    fn damage_and_other_formats_are_told() {
        let out = tempfile::tempdir().unwrap();
        let path = out.path().join(FILE_NAME);
        std::fs::write(&path, "{").unwrap();
        let error = format!("{:#}", Manifest::open(out.path()).unwrap_err());
        assert!(error.contains("collected.json is damaged"), "{error}");
        std::fs::write(&path, r#"{"format": "segtrt collected 9", "folders": {}}"#).unwrap();
        let error = format!("{:#}", Manifest::open(out.path()).unwrap_err());
        assert!(error.contains("segtrt collected 9"), "{error}");
    }
}

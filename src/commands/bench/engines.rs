/*!
Finds the engine folder of a model by GPU, precision and image size; or an error with the command
that builds it.
*/

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::args::GpuArgs;
use crate::selftest::{Asked, Folder, find};
use cuda::{Facts, Gpu};
use host::shell;
use vos::model_tag::ModelTag;
use vos::platform::Platforms;
use vos::precision::Precision;

/// The size that is taken where none is asked for and several are there.
const USUAL_IMGSZ: usize = 1024;

/// The engine folders that run on the GPU at hand.
pub struct Catalogue {
    folders: Vec<Folder>,
    root: PathBuf,
    gpu: Facts,
    /// The default precision of the GPU's row in the platform table; none for a GPU that it does
    /// not have.
    usual: Option<Precision>,
}

impl Catalogue {
    /// Asks the driver for the GPU, and looks through the folder of engines.
    ///
    /// # Errors
    /// No driver, no such GPU, or nothing there that runs on it.
    pub fn open(args: &GpuArgs) -> Result<Self> {
        // Opened and closed again: the workers open it for themselves.
        let gpu = match (Gpu::open(args.device), elsewhere(args)?) {
            (Ok(gpu), _) => gpu.facts().clone(),
            (Err(_), Some(gpu)) => gpu,
            (Err(error), None) => return Err(error.into()),
        };
        let asked = Asked { platform: args.platform.clone(), ..Asked::default() };
        let (ours, others): (Vec<Folder>, Vec<Folder>) =
            find(&args.engines, &asked)?.into_iter().partition(|folder| folder.runs_on(gpu.sm));
        for folder in &others {
            log::info!("left out {}: built for other GPUs than {}", folder.dir.display(), gpu.name);
        }
        let root = args.engines.clone();
        if ours.is_empty() {
            bail!(
                "no engine in {} runs on {} (sm {}); build one: segtrt build-engines --out {}",
                root.display(),
                gpu.name,
                gpu.sm,
                shell::path(&root)
            );
        }
        let platforms = Platforms::open(None)?;
        let usual = platforms.of_device(&gpu.name, gpu.sm).map(|platform| platform.precision);
        Ok(Self { folders: ours, root, gpu, usual })
    }

    /// Whether there are engines of this network, of any size and precision.
    pub fn has(&self, network: &str) -> bool {
        self.folders.iter().any(|folder| folder.manifest.bundle.model.name == network)
    }

    /// The folder for a model; of several sizes 1024, of several precisions the platform's.
    ///
    /// # Errors
    /// None there, or several that nothing tells apart.
    pub fn find(
        &self,
        tag: &ModelTag,
        imgsz: Option<usize>,
        precision: Option<&str>,
    ) -> Result<&Folder> {
        let fits = |folder: &&Folder| {
            let model = &folder.manifest.bundle.model;
            model.name == tag.network
                && imgsz.is_none_or(|side| side == model.imgsz)
                && precision.is_none_or(|name| name == folder.manifest.precision.name())
        };
        let mut left: Vec<&Folder> = self.folders.iter().filter(fits).collect();
        narrow(&mut left, |folder| folder.manifest.bundle.model.imgsz == USUAL_IMGSZ);
        narrow(&mut left, |folder| Some(folder.manifest.precision) == self.usual);
        match left.as_slice() {
            [] => bail!("{}", self.missing(tag, imgsz, precision)),
            [only] => Ok(only),
            several => bail!(
                "several engine folders of {} run on {}: {}; choose one with --imgsz, --precision \
                 or --platform",
                tag.network,
                self.gpu.name,
                several.iter().map(|f| f.dir.display().to_string()).collect::<Vec<_>>().join(", ")
            ),
        }
    }

    fn missing(&self, tag: &ModelTag, imgsz: Option<usize>, precision: Option<&str>) -> String {
        let there: Vec<String> =
            self.folders.iter().map(|folder| folder.dir.display().to_string()).collect();
        let size = imgsz.map_or_else(String::new, |side| format!(" --imgsz {side}"));
        let precision = precision
            .or_else(|| self.usual.map(Precision::name))
            .map_or_else(String::new, |name| format!(" --precision {name}"));
        let requested = match format!("{size}{precision}") {
            none if none.is_empty() => none,
            flags => format!(" with{flags}"),
        };
        format!(
            "no engines of {} in {} run on {} (sm {}){}; found {}; build them: segtrt \
             build-engines --platform auto --models {}{size}{precision} --out {}",
            tag.network,
            self.root.display(),
            self.gpu.name,
            self.gpu.sm,
            requested,
            there.join(", "),
            tag.network,
            shell::path(&self.root)
        )
    }
}

/// What the platform table knows of the GPU that engines are for, where a plan is made without one.
fn elsewhere(args: &GpuArgs) -> Result<Option<Facts>> {
    let Some(name) = args.platform.as_deref().filter(|_| args.elsewhere) else { return Ok(None) };
    let platforms = Platforms::open(None)?;
    let row = platforms.get(name);
    Ok(row.map(|row| Facts {
        ordinal: 0,
        name: row.device_names.first().unwrap_or(&row.title).clone(),
        sm: row.sm,
        total_bytes: row.memory_mb << 20,
        unified: row.unified,
        driver_cuda: String::new(),
    }))
}

/// Keeps those that `wanted` takes, if there are any and there is a choice.
fn narrow(folders: &mut Vec<&Folder>, wanted: impl Fn(&Folder) -> bool) {
    if folders.len() > 1 && folders.iter().any(|folder| wanted(folder)) {
        folders.retain(|folder| wanted(folder));
    }
}

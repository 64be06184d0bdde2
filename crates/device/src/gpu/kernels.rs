//! The kernels of `kernels/` on a device: which it can run, how each is loaded and launched.
//!
//! A kernel is loaded from the binaries that build.rs embedded where one of them is made for this
//! device and its driver, else from its text: compiled by the compiler that suits the driver, or by
//! the next one where that one refuses the text or the driver its binary.

mod counters;
mod observer;

use self::observer::Observer;

pub use self::counters::Counters;
use super::{
    attention,
    compiler::{self, Source},
    context::Context,
    graph::Graph,
    module::{Arguments, Entry, Module, NotLoaded},
    parameters, tensor_map,
    vendor::{KernelSet, Shape},
};
use crate::{
    Buffer, DeviceError, Launch, Result,
    bundle::{self, Bundled},
    user::UserFile,
};
use bytemuck::NoUninit;
use fizeau_domain::{
    case::KernelName,
    kernel::{
        GemmParams, GroupedParams, LaunchParams, Operation, Params,
        manifest::{self, File, Grid, KernelRow, Manifest, Repeat},
        user::Form,
    },
    outcome::Code,
    spec::Properties,
    text::counted,
    units::{Bytes, Megahertz},
};
use sha2::{Digest as _, Sha256};
use std::{
    cell::{OnceCell, RefCell},
    collections::{BTreeMap, BTreeSet},
    ffi::CString,
    rc::Rc,
};

/// What a device can run.
pub struct Kernels {
    set: KernelSet,
    /// Nanoseconds of the device's timer for each that it counts as one.
    timer: f64,
    /// Targets whose binaries it runs, its own first.
    targets: Vec<String>,
    files: Vec<File>,
    /// What a user brings.
    user: OnceCell<Vec<UserFile>>,
    /// Files that none of the device's targets runs.
    others: Vec<File>,
    /// The most shared memory that a block of this device can have, where it says so.
    block_memory: Option<Bytes>,
    modules: RefCell<BTreeMap<String, (Rc<Module>, Code)>>,
    observer: OnceCell<Option<Observer>>,
}

/// A kernel that was loaded.
pub struct Loaded {
    /// The image that it is of.
    pub code: Code,
    entry: Entry,
    row: KernelRow,
    /// Its scratch memory, and the number of blocks that it is for.
    scratch: RefCell<Option<(u32, Buffer)>>,
}

impl Kernels {
    /// Those of a device, whose blocks can have so much shared memory.
    ///
    /// # Errors
    ///
    /// Where kernels.toml is broken, which a test rules out.
    pub fn of(
        properties: &Properties,
        set: KernelSet,
        timer: f64,
        block_memory: Option<Bytes>,
    ) -> Result<Kernels> {
        let manifest: Manifest = toml::from_str((set.files)().manifest)
            .map_err(|error| DeviceError::Driver(format!("the list of kernels: {error}")))?;
        let targets = properties.features.clone();
        let runs = |file: &File| !file.images(&targets).is_empty();
        let (files, others) = manifest.file.into_iter().partition(runs);
        let (modules, observer) = (RefCell::default(), OnceCell::new());
        let user = OnceCell::new();
        Ok(Kernels { set, timer, targets, files, user, others, block_memory, modules, observer })
    }

    /// The device's own target, where no kernel is made for its architecture: those that run on it
    /// were written for older ones.
    pub fn unknown_architecture(&self) -> Option<&str> {
        let is_known = self.files.iter().any(|file| file.is_made_for(&self.targets));
        let own = self.targets.iter().find(|target| manifest::number(target).is_some());
        own.or(self.targets.first()).filter(|_| !is_known).map(String::as_str)
    }

    /// Lists kernels that a user brings behind the others, once.
    ///
    /// # Errors
    ///
    /// In words for users, where a file is for other devices, or a name is taken.
    pub fn take(&self, files: Vec<UserFile>) -> Result<(), String> {
        for (at, file) in files.iter().enumerate() {
            let path = file.path.display();
            if file.form == Form::Library {
                return Err(format!(
                    "{path}: it is for the host, and a GPU is measured; choose --device host"
                ));
            }
            if file.section.images(&self.targets).is_empty() {
                let own = self.targets.join(", ");
                let listed: Vec<&str> = file.section.targets.iter().map(String::as_str).collect();
                return Err(format!(
                    "{}: targets: this device runs {own}, and the file is for {}",
                    file.section_path(),
                    listed.join(", ")
                ));
            }
            let bundled = || self.files.iter().flat_map(|file| &file.kernels);
            file.collides(|name| bundled().any(|row| row.name == name), &files[..at])?;
        }
        self.user.set(files).map_err(|_| "kernels of a user were taken before".to_owned())
    }

    /// What a user brings.
    pub fn taken(&self) -> &[UserFile] {
        self.user.get().map(Vec::as_slice).unwrap_or_default()
    }

    /// The user's file of this section.
    fn user_file(&self, section: &File) -> Option<&UserFile> {
        self.taken().iter().find(|file| std::ptr::eq(&raw const file.section, section))
    }

    /// Where no kernel is made for the device's architecture: those that do not run on it, each
    /// with the targets that it is made for, `sm90_wgmma (sm_90a)`.
    pub fn left_out(&self) -> Vec<String> {
        if self.unknown_architecture().is_none() {
            return Vec::new();
        }
        let mut targets: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for file in &self.others {
            targets.entry(file.stem()).or_default().extend(file.targets.iter().map(String::as_str));
        }
        let words = |(stem, targets): (&str, BTreeSet<&str>)| {
            format!("{stem} ({})", targets.into_iter().collect::<Vec<_>>().join(", "))
        };
        targets.into_iter().map(words).collect()
    }

    /// Every file with each of its kernels.
    fn rows(&self) -> impl Iterator<Item = (&File, &KernelRow)> {
        let files = self.files.iter().chain(self.taken().iter().map(|file| &file.section));
        files.flat_map(|file| file.kernels.iter().map(move |row| (file, row)))
    }

    /// Names of those for an operation, best guess first.
    pub fn names(&self, operation: Operation) -> Vec<KernelName> {
        let of_operation = self.rows().filter(|(_, row)| row.operation == operation);
        of_operation.map(|(_, row)| KernelName(row.name.clone())).collect()
    }

    /// The same without those of the user.
    pub fn bundled_names(&self, operation: Operation) -> Vec<KernelName> {
        let rows = self.files.iter().flat_map(|file| &file.kernels);
        let of_operation = rows.filter(|row| row.operation == operation);
        of_operation.map(|row| KernelName(row.name.clone())).collect()
    }

    /// Loads one.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsupported`] where this device has none of the name, or less shared memory
    /// than its blocks want,
    /// [`DeviceError::Missing`] where it would have to be compiled and NVRTC is not there.
    pub fn load(
        &self,
        context: &Rc<Context>,
        operation: Operation,
        kernel: &str,
    ) -> Result<Loaded> {
        let mut rows = self.rows();
        let (file, row) = rows
            .find(|(_, row)| row.operation == operation && row.name == kernel)
            .ok_or_else(|| DeviceError::Unsupported {
                kernel: format!("{operation}/{kernel}"),
                needs: format!("a target other than {}", self.targets.join(", ")),
            })?;
        let shared = Bytes(u64::from(row.shared));
        if let Some(most) = self.block_memory.filter(|&most| shared > most) {
            let wanted = shared.0.div_ceil(1 << 10);
            return Err(DeviceError::Unsupported {
                kernel: row.entry.clone(),
                needs: format!(
                    "{wanted} KiB of shared memory for a block, where this device has {}",
                    most.0 >> 10
                ),
            });
        }
        let (module, code) = self.module(context, file)?;
        let name = CString::new(row.entry.as_str())
            .map_err(|_| DeviceError::Driver("a symbol with a zero in it".into()))?;
        let entry = module.entry(&name, &shape(row, 1), self.block_memory)?;
        if let Some(user) = self.user_file(file) {
            parameters::check(&entry, row, user)?;
        }
        Ok(Loaded { code, entry, row: row.clone(), scratch: RefCell::default() })
    }

    /// The module of a file, loaded once.
    fn module(&self, context: &Rc<Context>, file: &File) -> Result<(Rc<Module>, Code)> {
        if let Some(loaded) = self.modules.borrow().get(&file.path) {
            return Ok(loaded.clone());
        }
        let targets = file.images(&self.targets);
        let loaded = match self.user_file(file) {
            Some(user) if user.form == Form::Image => image_of_user(context, user, &targets)?,
            Some(_) => self.compiled(context, file, &targets, "it is a text")?,
            None => match self.built_in(context, file, &targets)? {
                Ok(loaded) => loaded,
                Err(refused) => self.compiled(context, file, &targets, &refused)?,
            },
        };
        self.modules.borrow_mut().insert(file.path.clone(), loaded.clone());
        Ok(loaded)
    }

    /// From an embedded binary; why from none, where none fits.
    fn built_in(
        &self,
        context: &Rc<Context>,
        file: &File,
        targets: &[&str],
    ) -> Result<Result<(Rc<Module>, Code), String>> {
        let builder = self.set.builder;
        let mut refused =
            format!("this build has no binaries of its kernels: no {builder} was found");
        for target in targets {
            let Some(binary) = self.bundled(file, target)?.binary else { continue };
            let image = binary.image().map_err(|error| DeviceError::Launch {
                kernel: file.path.clone(),
                why: format!("its binary in this program cannot be unpacked: {error}"),
            })?;
            match context.module(&image, &file.path) {
                Ok(module) => {
                    return Ok(Ok((Rc::new(module), code(&image, target, binary.compiler))));
                }
                Err(NotLoaded::Device(error)) => return Err(error),
                Err(NotLoaded::WrongImage(why)) => {
                    refused =
                        format!("the built-in binaries do not fit this device and driver ({why})");
                }
            }
        }
        Ok(Err(refused))
    }

    /// From its text: for each target and by each compiler in turn, until the driver takes one.
    fn compiled(
        &self,
        context: &Rc<Context>,
        file: &File,
        targets: &[&str],
        refused: &str,
    ) -> Result<(Rc<Module>, Code)> {
        let compilers = (self.set.compilers)(context.driver().version);
        let compilers = compiler::found(&compilers).map_err(|error| match error {
            DeviceError::Missing { what, remedy } => {
                DeviceError::Missing { what: format!("{refused}, and {what}"), remedy }
            }
            other => other,
        })?;
        let (mut refusals, mut by_driver) = (Vec::new(), false);
        // A target that suits the device better goes before a compiler that suits the driver
        // better.
        let compilers = &compilers;
        let tries =
            targets.iter().flat_map(|target| compilers.iter().map(move |one| (one, target)));
        for (compiler, target) in tries {
            let (name, text) = self.text(file, target)?;
            let source = Source { name, text, headers: bundle::headers(), target };
            let by = compiler.named();
            if let Some(image) = compiler.kept(&source) {
                if let Ok(module) = context.module(&image, name) {
                    return Ok((Rc::new(module), code(&image, target, &by)));
                }
                // It may be what is wrong; what is compiled anew tells.
                compiler.forget(&source);
            }
            let image = match compiler.compile(&source) {
                Ok(image) => image,
                Err(DeviceError::Launch { why, .. }) => {
                    refusals.push(format!("for {target}, {why}"));
                    continue;
                }
                Err(error) => return Err(error),
            };
            match context.module(&image, name) {
                Ok(module) => {
                    compiler.keep(&source, &image);
                    return Ok((Rc::new(module), code(&image, target, &by)));
                }
                Err(NotLoaded::Device(error)) => return Err(error),
                Err(NotLoaded::WrongImage(why)) => {
                    by_driver = true;
                    refusals
                        .push(format!("the driver refuses what {by} makes for {target} ({why})"));
                }
            }
        }
        let why = refusals.join("; ");
        let what = match (by_driver, self.unknown_architecture()) {
            // The text is right: another compiler, or another driver, would do.
            (true, _) => "a compiler whose binaries this driver loads".to_owned(),
            // It was never compiled for this target, so that it may be the compiler's to learn.
            (false, Some(target)) => format!("a compiler that knows {target}"),
            (false, None) => {
                return Err(DeviceError::Launch { kernel: file.path.clone(), why });
            }
        };
        Err(DeviceError::Missing {
            what: format!("{what} ({why})"),
            remedy: self.set.remedy.into(),
        })
    }

    /// The name of a file's text, and the text.
    fn text<'k>(&'k self, file: &'k File, target: &str) -> Result<(&'k str, &'k str)> {
        let Some(user) = self.user_file(file) else {
            let Bundled { path, text, .. } = self.bundled(file, target)?;
            return Ok((path, text));
        };
        let told = |error| {
            let (kernel, why) = (file.path.clone(), format!("it is no text: {error}"));
            DeviceError::Launch { kernel, why }
        };
        Ok((&file.path, std::str::from_utf8(&user.bytes).map_err(told)?))
    }

    fn bundled(&self, file: &File, target: &str) -> Result<Bundled> {
        (self.set.files)()
            .find(&file.path, target)
            .ok_or_else(|| DeviceError::Driver(format!("no {}", file.path)))
    }

    /// The clock of the units: the median of what each counts against the device's own timer.
    /// None where the kernel that does so cannot be had.
    pub fn observe_clock(
        &self,
        context: &Rc<Context>,
        properties: &Properties,
    ) -> Result<Option<Megahertz>> {
        let make = |kernel| Observer::new(kernel, context, properties).ok();
        let load = || self.load(context, Operation::Clock, "portable").ok();
        let made = self.observer.get_or_init(|| load().and_then(make));
        let seen = made.as_ref().map(|observer| observer.observe(context)).transpose()?;
        Ok(seen.map(|Megahertz(clock)| Megahertz(clock / self.timer)))
    }
}

/// What a user compiled, as it is.
fn image_of_user(
    context: &Rc<Context>,
    file: &UserFile,
    targets: &[&str],
) -> Result<(Rc<Module>, Code)> {
    let kernel = file.path.display().to_string();
    match context.module(&file.bytes, &kernel) {
        Ok(module) => {
            let target = targets.first().copied().unwrap_or_default();
            Ok((Rc::new(module), code(&file.bytes, target, "the user")))
        }
        Err(NotLoaded::Device(error)) => Err(error),
        Err(NotLoaded::WrongImage(why)) => {
            let why = format!("the driver does not load it on this device: {why}");
            Err(DeviceError::Launch { kernel, why })
        }
    }
}

/// What a record keeps of an image.
fn code(image: &[u8], target: &str, compiler: &str) -> Code {
    let sha256 = Sha256::digest(image).iter().map(|byte| format!("{byte:02x}")).collect();
    Code::Image { sha256, target: target.into(), compiler: compiler.into() }
}

/// How a kernel is launched on a number of blocks.
fn shape(row: &KernelRow, blocks: u32) -> Shape {
    let cluster = row.cluster.max(1);
    let whole = (blocks / cluster * cluster).max(cluster);
    Shape {
        grid: [whole, 1, 1],
        threads: row.threads,
        shared: row.shared,
        cluster: [cluster, 1, 1],
    }
}

/// Blocks of a kernel that has a cluster for each tile of C; none of another kernel.
fn blocks_of_tiles(row: &KernelRow, gemm: &GemmParams) -> Option<u32> {
    let [rows, columns] = row.tiles?;
    Some(gemm.m.div_ceil(rows) * gemm.n.div_ceil(columns) * row.cluster)
}

impl Loaded {
    /// Blocks of a cluster of its launches; 1 where there are none.
    pub fn cluster(&self) -> u32 {
        self.row.cluster.max(1)
    }

    /// Enqueues it.
    ///
    /// # Errors
    ///
    /// What the driver refuses; [`DeviceError::Unsupported`] where it is not made for the shape.
    pub fn launch(&self, context: &Rc<Context>, launch: &Launch<'_>) -> Result<()> {
        let row = &self.row;
        let mut parameters = vec![launch.params.bytes().to_vec()];
        if row.repeat == Repeat::Inside {
            parameters.push(launch.repeat.to_le_bytes().to_vec());
        }
        if row.scratch > 0 {
            let [blocks, ..] = shape(row, launch.blocks * row.per_unit).grid;
            parameters.push(self.scratch(context, blocks)?.to_le_bytes().to_vec());
        }
        let mut blocks_wanted = None;
        let mut maps = Vec::new();
        match &launch.params {
            Params::Gemm(gemm) => {
                self.check_shape(gemm)?;
                blocks_wanted = blocks_of_tiles(row, gemm);
                maps.extend(row.maps.iter().filter_map(|map| tensor_map::of(map, gemm)));
            }
            Params::Grouped(groups) => {
                self.check_groups(groups)?;
                maps.extend(row.maps.iter().filter_map(|map| tensor_map::of_groups(map, groups)));
            }
            Params::Attention(attention) => {
                attention::check(row, attention)?;
                blocks_wanted = attention::blocks(row, attention);
                maps.extend(
                    row.maps.iter().filter_map(|map| tensor_map::of_attention(map, attention)),
                );
            }
            _ => {}
        }
        if maps.len() != row.maps.len() {
            let needs = "operands that its operation has not".into();
            return Err(DeviceError::Unsupported { kernel: row.entry.clone(), needs });
        }
        for encoding in &maps {
            parameters.push(context.encode(encoding, &self.entry)?);
        }
        let mut params = match maps.is_empty() {
            true => Arguments::packed(&parameters),
            false => Arguments::apart(parameters.iter().map(Vec::as_slice)),
        };
        let length = match &launch.params {
            Params::Stream(stream) => Some(stream.length),
            _ => None,
        };
        let blocks = match (row.elements, length, row.grid) {
            (Some(elements), Some(length), _) => length.div_ceil(elements).max(1) as u32,
            (_, _, Grid::One) => 1,
            (_, _, Grid::Units) => blocks_wanted.unwrap_or(launch.blocks * row.per_unit),
        };
        let launches = if row.repeat == Repeat::Inside { 1 } else { launch.repeat };
        // Copies that go at once are on streams of their own.
        let lane = match &launch.params {
            Params::Transfer(transfer) => transfer.lane,
            _ => 0,
        };
        let stream = context.lane(context.ordinal, lane)?;
        context.launch_on(stream, &self.entry, &shape(row, blocks), &mut params, launches)
    }

    /// The address of scratch memory for `blocks` blocks, which is allocated when first needed and
    /// left as it was by every launch.
    fn scratch(&self, context: &Rc<Context>, blocks: u32) -> Result<u64> {
        let mut scratch = self.scratch.borrow_mut();
        if let Some((_, buffer)) = scratch.as_ref().filter(|(of, _)| *of == blocks) {
            return Ok(buffer.address);
        }
        let buffer = context.allocate(Bytes(self.row.scratch) * u64::from(blocks))?;
        let address = buffer.address;
        *scratch = Some((blocks, buffer));
        Ok(address)
    }

    /// A graph of as many launches as is said.
    pub fn graph(&self, context: &Rc<Context>, params: &LaunchParams) -> Result<Graph> {
        let mut bytes = Arguments::new(bytemuck::bytes_of(params));
        Graph::of(context, &self.entry, &shape(&self.row, 1), &mut bytes, params.kernels as u32)
    }

    /// Whether it is made for these parameters on a device of `units` units.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unfit`] where it is not.
    pub fn takes(&self, params: &Params, units: u32) -> Result<()> {
        match params {
            Params::Gemm(gemm) => {
                self.check_shape(gemm)?;
                let rounds = self.row.rounds.and_then(|of| of.needs(gemm.m, gemm.n, units));
                let kernel = self.row.entry.clone();
                rounds.map_or(Ok(()), |needs| Err(DeviceError::Unfit { kernel, needs }))
            }
            Params::Grouped(groups) => self.check_groups(groups),
            _ => Ok(()),
        }
    }

    /// Enqueues it once on `units` units, with its parameters.
    pub fn launch_plain<P: NoUninit>(
        &self,
        context: &Context,
        units: u32,
        params: &P,
    ) -> Result<()> {
        let mut params = Arguments::new(bytemuck::bytes_of(params));
        let blocks = if self.row.grid == Grid::One { 1 } else { units * self.row.per_unit };
        context.launch(&self.entry, &shape(&self.row, blocks), &mut params, 1)
    }

    fn check_shape(&self, gemm: &GemmParams) -> Result<()> {
        if let Some(columns_max) = self.row.columns_max.filter(|&most| gemm.n > most) {
            let needs = format!("at most {columns_max} columns");
            return Err(DeviceError::Unfit { kernel: self.row.entry.clone(), needs });
        }
        self.check_rows(tensor_map::row_bytes(gemm), gemm.m)
    }

    fn check_groups(&self, groups: &GroupedParams) -> Result<()> {
        self.check_rows(tensor_map::row_bytes_of_groups(groups), groups.rows_max)
    }

    /// Whether it is made for rows of this length in bytes, and for this number of rows.
    fn check_rows(&self, rows: [u64; 3], most: u32) -> Result<()> {
        let KernelRow { alignment, rows_min, rows_max, .. } = self.row;
        let needs = if !rows.iter().all(|row| row.is_multiple_of(u64::from(alignment))) {
            format!("rows of whole {alignment} bytes in A, B and C")
        } else if let Some(rows_max) = rows_max.filter(|&rows_max| most > rows_max) {
            format!("at most {}", counted(rows_max as usize, "row"))
        } else if let Some(rows_min) = rows_min.filter(|&rows_min| most < rows_min) {
            format!("at least {}", counted(rows_min as usize, "row"))
        } else {
            return Ok(());
        };
        Err(DeviceError::Unfit { kernel: self.row.entry.clone(), needs })
    }
}

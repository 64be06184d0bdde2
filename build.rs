//! Embeds the catalogue (`data/`), the commit that the program is built from, and the GPU kernels
//! (`kernels/`): their text always, binaries for every target that a compiler is found for, packed.
//!
//! `FIZEAU_KERNELS` says how: `auto` (if absent) compiles where there is a compiler, `off` never
//! does, `require` fails the build where a target has none. `FIZEAU_NVCC` names compilers, several
//! between colons: an nvcc or an NVRTC (`libnvrtc.so.12`) each. Without it the nvcc of `CUDA_HOME`,
//! `CUDA_PATH`, `PATH`, /usr/local/cuda and /usr/local/cuda-* are taken. A kernel that does not
//! compile fails the build, whatever the mode.
//!
//! A driver of CUDA 12 (525 or newer) loads what a compiler of CUDA 12 makes and nothing of CUDA
//! 13. So each target is left to the newest compiler of CUDA 12 that knows it, and to the oldest one of
//! CUDA 13 only where none does: compute capability 10.7 (`sm_107a`) came with CUDA 13.4. A target that
//! no compiler knows is left out, with a warning.
//!
//! For AMD's targets a clang that knows all but the newest of them is looked for in `FIZEAU_CLANG`,
//! `ROCM_PATH` and /opt/rocm, and used unless the mode is `off`; one of another version that `PATH`
//! has is left alone, since it may lack a target or its linker. Of the newest targets a binary is
//! made where clang knows their matrix instructions.

#[path = "build/commit.rs"]
mod commit;
#[path = "build/nvrtc.rs"]
mod nvrtc;

use lzma_rust2::{XzOptions, XzWriter};
use nvrtc::Nvrtc;
use std::{
    collections::BTreeSet,
    env,
    error::Error,
    fmt::Write as _,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::{Arc, Mutex},
    thread,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    match embed() {
        Ok(()) => ExitCode::SUCCESS,
        // As it stands: a compiler's words have lines.
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn embed() -> Outcome<()> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-env=FIZEAU_BUILD={}", build(&root)?);
    fs::write(out.join("data.rs"), catalogue(&root)?)?;
    let tables = [headers(&root)?, kernels(&root, &out)?, kernels_amd(&root, &out)?];
    fs::write(out.join("kernels.rs"), tables.concat())?;
    Ok(())
}

/// The commit that the program is built from, else the version of its package. Only a release has
/// it: other builds measure nothing that is kept, and would be made anew after each commit.
fn build(root: &Path) -> Outcome<String> {
    let version = env::var("CARGO_PKG_VERSION")?;
    if env::var("PROFILE")? != "release" {
        return Ok(version + "-debug");
    }
    let Some(commit) = commit::describe(root) else { return Ok(version) };
    let sources = commit::SOURCES.map(String::from);
    let sources = sources.into_iter().filter(|path| root.join(path).exists());
    for path in sources.chain(commit::watched(root)) {
        println!("cargo:rerun-if-changed={path}");
    }
    Ok(commit)
}

/// One table of (folder, name, text) for each TOML file.
fn catalogue(root: &Path) -> Outcome<String> {
    println!("cargo:rerun-if-changed=data");
    let mut table = String::from("&[\n");
    for folder in
        ["parts", "hosts", "links", "suites", "models", "claims", "profiles", "medians", "costs"]
    {
        for path in files(&root.join("data").join(folder), "toml")? {
            let name = path.file_stem().ok_or("a data file has a name")?.to_string_lossy();
            writeln!(table, "    ({folder:?}, {name:?}, include_str!({path:?})),")?;
        }
    }
    for path in files(&root.join("data/published"), "csv")? {
        let name = path.file_stem().ok_or("a data file has a name")?.to_string_lossy();
        writeln!(table, "    (\"published\", {name:?}, include_str!({path:?})),")?;
    }
    table.push_str("]\n");
    Ok(table)
}

/// The table of the headers that kernels may include, as Rust: name and text.
fn headers(root: &Path) -> Outcome<String> {
    let mut table = String::from(
        "/// Files that kernels may include: name and text.\n\
                                  static HEADERS: &[(&str, &str)] = &[\n",
    );
    for path in files(&root.join("kernels/include"), "h")? {
        let name = path.file_name().ok_or("a header has a name")?.to_string_lossy();
        writeln!(table, "    ({name:?}, include_str!({path:?})),")?;
    }
    table.push_str("];\n");
    Ok(table)
}

/// The files of a folder with an extension, in order.
fn files(folder: &Path, extension: &str) -> Outcome<Vec<PathBuf>> {
    let mut paths: Vec<_> = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    Ok(paths)
}

/// A file of kernels.toml: the fields that a compiler needs.
struct Kernel {
    path: String,
    targets: Vec<String>,
    ptx: Option<String>,
}

/// The table of kernels, and the compilers that made their binaries.
fn kernels(root: &Path, out: &Path) -> Outcome<String> {
    println!("cargo:rerun-if-changed=kernels");
    let folder = root.join("kernels");
    let list = manifest(&folder, "kernels.toml")?;
    let compilers = find_compilers()?;
    let mut used = vec![BTreeSet::new(); compilers.len()];
    let (mut jobs, mut unknown) = (Vec::new(), BTreeSet::new());
    let mut table = String::from("static NVIDIA: &[KernelFile] = &[\n");
    for kernel in &list {
        let Kernel { path, targets, ptx } = kernel;
        let mut binaries = String::new();
        for target in targets.iter().chain(ptx) {
            let Some((target, at)) = compiler_for(&compilers, target) else {
                if mode()? == "require" {
                    return Err(format!(
                        "FIZEAU_KERNELS=require, and no compiler knows {target} of \
                         {path}: FIZEAU_NVCC names compilers"
                    )
                    .into());
                }
                unknown.insert(target);
                continue;
            };
            let name = format!("{}.{target}", path.replace('/', "-").trim_end_matches(".cu"));
            let binary = out.join(name);
            let packed = packed(&binary);
            writeln!(binaries, "({target:?}, include_bytes!({packed:?}), {at}),")?;
            jobs.push(cuda_job(&compilers[at], &folder, kernel, &target, binary)?);
            used[at].insert(target);
        }
        let text = folder.join(path);
        writeln!(
            table,
            "    KernelFile {{ path: {path:?}, text: include_str!({text:?}), binaries: &[{binaries}] }},"
        )?;
    }
    compile(jobs)?;
    for target in unknown.into_iter().filter(|_| !compilers.is_empty()) {
        println!(
            "cargo:warning=no compiler that was found knows {target}: no kernel for it is \
             embedded, and FIZEAU_NVCC names compilers"
        );
    }
    table.push_str("];\nstatic NVIDIA_COMPILERS: &[(&str, &str)] = &[\n");
    for (compiler, targets) in compilers.iter().zip(used) {
        let targets = targets.into_iter().collect::<Vec<_>>().join(", ");
        writeln!(table, "    ({:?}, {targets:?}),", compiler.version)?;
    }
    table.push_str("];\n");
    Ok(table)
}

/// What a target is compiled as, and the place of the compiler for it: as its family's, which more
/// devices run, where a compiler knows that.
fn compiler_for(compilers: &[Compiler], target: &str) -> Option<(String, usize)> {
    // As `manifest::family` of the program has it.
    let family = (target == "sm_120a").then_some("sm_120f");
    family.into_iter().chain([target]).find_map(|target| {
        let knowing = compilers.iter().enumerate().filter(|(_, one)| one.knows(target));
        // Of CUDA 12 the newest, else the oldest there is.
        let (at, _) = knowing.max_by_key(|(_, Compiler { release: (major, minor), .. })| {
            let (major, minor) = (i64::from(*major), i64::from(*minor));
            if major == 12 { (1, minor, 0) } else { (0, -major, -minor) }
        })?;
        Some((target.to_owned(), at))
    })
}

fn manifest(folder: &Path, name: &str) -> Outcome<Vec<Kernel>> {
    let list: toml::Table = fs::read_to_string(folder.join(name))?.parse()?;
    let files = list.get("file").and_then(toml::Value::as_array);
    let files = files.ok_or("a list of kernels has no [[file]]")?;
    let kernel = |file: &toml::Value| -> Option<Kernel> {
        let word = |value: &toml::Value| value.as_str().map(str::to_owned);
        let targets = file.get("targets")?.as_array()?;
        Some(Kernel {
            path: word(file.get("path")?)?,
            targets: targets.iter().map(word).collect::<Option<_>>()?,
            ptx: file.get("ptx").and_then(word),
        })
    };
    let kernels: Option<Vec<Kernel>> = files.iter().map(kernel).collect();
    Ok(kernels.ok_or("a list of kernels has a [[file]] without path or targets")?)
}

/// How kernels are compiled: `auto`, `off` or `require`.
fn mode() -> Outcome<String> {
    println!("cargo:rerun-if-env-changed=FIZEAU_KERNELS");
    let mode = env::var("FIZEAU_KERNELS").unwrap_or_else(|_| "auto".into());
    match mode.as_str() {
        "auto" | "off" | "require" => Ok(mode),
        _ => Err(format!("FIZEAU_KERNELS={mode}: it is auto, off or require").into()),
    }
}

/// A compiler of CUDA that was found.
struct Compiler {
    tool: Tool,
    /// `nvcc release 13.0, V13.0.88`.
    version: String,
    /// Of its CUDA: major and minor.
    release: (u32, u32),
    /// Numbers of the targets that it knows.
    known: Vec<String>,
}

enum Tool {
    Nvcc(PathBuf),
    Nvrtc(Arc<Nvrtc>),
}

impl Compiler {
    /// Whether it compiles for `sm_90a`, `sm_120f` or `compute_80`.
    fn knows(&self, target: &str) -> bool {
        let number = target.trim_start_matches("sm_").trim_start_matches("compute_");
        let plain = number.trim_end_matches(['a', 'f']).to_owned();
        // Families came with 12.9.
        self.known.contains(&plain) && (!number.ends_with('f') || self.release >= (12, 9))
    }
}

/// Every compiler that answers, as the mode allows; each release once.
fn find_compilers() -> Outcome<Vec<Compiler>> {
    for variable in ["FIZEAU_NVCC", "CUDA_HOME", "CUDA_PATH", "PATH"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let mode = mode()?;
    if mode == "off" {
        return Ok(Vec::new());
    }
    let mut found: Vec<Compiler> = Vec::new();
    let mut add = |compiler: Compiler| {
        let is_new = found.iter().all(|other| other.release != compiler.release);
        // Older ones do not know what kernels are written in.
        if is_new && compiler.release >= (12, 0) {
            found.push(compiler);
        }
    };
    if let Some(named) = env::var_os("FIZEAU_NVCC").filter(|named| !named.is_empty()) {
        for path in env::split_paths(&named) {
            add(answers(&path).map_err(|why| {
                format!("FIZEAU_NVCC names {}, which is no compiler: {why}", path.display())
            })?);
        }
    } else {
        let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os);
        let installed = fs::read_dir("/usr/local").into_iter().flatten().flatten();
        let installed = installed.filter(|at| at.file_name().to_string_lossy().starts_with("cuda"));
        let homes = homes.map(PathBuf::from).chain(installed.map(|at| at.path()));
        let programs = homes.map(|home| home.join("bin/nvcc")).chain(["nvcc".into()]);
        programs.flat_map(|program| answers(&program)).for_each(&mut add);
    }
    match found.is_empty() {
        true if mode == "require" => {
            Err("FIZEAU_KERNELS=require, and no nvcc answers: set FIZEAU_NVCC or CUDA_HOME".into())
        }
        _ => Ok(found),
    }
}

/// What a compiler says of itself.
fn answers(program: &Path) -> Result<Compiler, String> {
    // A name that PATH resolves is no file; PATH itself is watched.
    if program.is_absolute() && program.exists() {
        println!("cargo:rerun-if-changed={}", program.display());
    }
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with("libnvrtc.so") {
        let opened = Nvrtc::open(program)?;
        let (release, known) = (opened.release, opened.known.clone());
        let version = format!("NVRTC {}.{}", release.0, release.1);
        return Ok(Compiler { tool: Tool::Nvrtc(Arc::new(opened)), version, release, known });
    }
    let say = |argument: &str| {
        let output = Command::new(program).arg(argument).output().map_err(|e| e.to_string())?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            Ok(said)
        } else {
            Err(format!("it ends with {}", output.status))
        }
    };
    let version = say("--version")?;
    let line = version.lines().find_map(|line| Some(&line[line.find("release ")?..]));
    let line = line.ok_or("it does not say its release")?;
    let numbers = line.trim_start_matches("release ").split([',', ' ']).next().unwrap_or_default();
    let release = numbers
        .split_once('.')
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let known = say("--list-gpu-code")?;
    let known = known.split_whitespace().filter_map(|code| code.strip_prefix("sm_"));
    Ok(Compiler {
        tool: Tool::Nvcc(program.to_owned()),
        version: format!("nvcc {line}"),
        release: release.ok_or("its release is no number")?,
        known: known.map(str::to_owned).collect(),
    })
}

/// What makes a binary: leaves it in a file.
type Make = Box<dyn FnOnce(&Path) -> Result<(), String> + Send>;

/// One run of a compiler.
struct Job {
    /// What is compiled, for messages.
    name: String,
    make: Make,
    binary: PathBuf,
    /// Changes with everything that the binary depends on.
    key: String,
}

impl Job {
    /// `how` tells this way to compile from others.
    fn new(
        (version, how): (&str, &str),
        folder: &Path,
        kernel: &Kernel,
        binary: PathBuf,
        make: Make,
    ) -> Outcome<Job> {
        let mut hasher = DefaultHasher::new();
        (version, how).hash(&mut hasher);
        hash_text(folder, &folder.join(&kernel.path), &mut BTreeSet::new(), &mut hasher)?;
        let key = format!("{:016x}", hasher.finish());
        Ok(Job { name: format!("{version} refuses {} ({how})", kernel.path), make, binary, key })
    }

    /// By a command, which is told where the headers, the text and the binary are.
    fn by_command(
        mut command: Command,
        version: &str,
        folder: &Path,
        kernel: &Kernel,
        binary: PathBuf,
    ) -> Outcome<Job> {
        command.arg("-I").arg(folder.join("include"));
        command.arg(folder.join(&kernel.path)).arg("-o").arg(&binary);
        let how = format!("{command:?}");
        let make = move |_: &Path| {
            let output = command.output().map_err(|error| error.to_string())?;
            match output.status.success() {
                true => Ok(()),
                false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            }
        };
        Job::new((version, &how), folder, kernel, binary, Box::new(make))
    }

    /// Compiles and packs, unless the binary of an earlier build is of the same key. The same text
    /// gives the same bytes.
    fn run(self) -> Result<(), String> {
        let key = self.binary.with_added_extension("key");
        let packed = packed(&self.binary);
        if packed.exists() && fs::read_to_string(&key).is_ok_and(|kept| kept == self.key) {
            return Ok(());
        }
        // Of a binary that is half written, no key is left.
        let _ = fs::remove_file(&key);
        (self.make)(&self.binary).map_err(|said| format!("{}:\n{said}", self.name))?;
        pack(&self.binary, &packed).map_err(|error| error.to_string())?;
        fs::write(key, self.key).map_err(|error| error.to_string())
    }
}

/// Where a binary is kept as the program has it.
fn packed(binary: &Path) -> PathBuf {
    binary.with_added_extension("xz")
}

/// Packs a binary as `Binary::image` of the program unpacks it: a stream of xz.
fn pack(binary: &Path, packed: &Path) -> std::io::Result<()> {
    let mut options = XzOptions::with_preset(9);
    // The program allots as much to unpack; no binary is larger.
    options.lzma_options.dict_size = 1 << 20;
    let mut stream = XzWriter::new(fs::File::create(packed)?, options)?;
    stream.write_all(&fs::read(binary)?)?;
    stream.finish()?;
    fs::remove_file(binary)
}

/// Hashes a file and every header of `kernels/` that it includes, directly or not.
fn hash_text(
    folder: &Path,
    file: &Path,
    seen: &mut BTreeSet<PathBuf>,
    hasher: &mut DefaultHasher,
) -> Outcome<()> {
    if !seen.insert(file.to_owned()) {
        return Ok(());
    }
    let text = fs::read_to_string(file)?;
    text.hash(hasher);
    for line in text.lines().filter(|line| line.trim_start().starts_with("#include")) {
        let name = line.split('"').nth(1).ok_or_else(|| format!("{}: {line}", file.display()))?;
        hash_text(folder, &folder.join("include").join(name), seen, hasher)?;
    }
    Ok(())
}

/// Runs all, as many at a time as cargo allows; if some fail, the build ends with what their
/// compilers said.
fn compile(jobs: Vec<Job>) -> Outcome<()> {
    let at_once = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(2);
    let left = Mutex::new(jobs.into_iter());
    let work = || {
        let next = || left.lock().ok().and_then(|mut left| left.next());
        std::iter::from_fn(next).filter_map(|job| job.run().err()).collect::<Vec<_>>()
    };
    let failed = thread::scope(|scope| {
        let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join()).collect::<Result<Vec<_>, _>>()
    });
    let failed = failed.map_err(|_| "a thread that compiles kernels panicked")?.concat();
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n").into()) }
}

/// One file to a binary for one target: machine code, or PTX for `compute_80`.
fn cuda_job(
    compiler: &Compiler,
    folder: &Path,
    kernel: &Kernel,
    target: &str,
    binary: PathBuf,
) -> Outcome<Job> {
    let number = target.trim_start_matches("sm_").trim_start_matches("compute_");
    match &compiler.tool {
        Tool::Nvcc(program) => {
            let mut command = Command::new(program);
            command.args(["-std=c++17", "-O3", "--frandom-seed=1"]);
            command.arg(if target.starts_with("sm_") { "-cubin" } else { "-ptx" });
            command.arg(format!("-gencode=arch=compute_{number},code={target}"));
            Job::by_command(command, &compiler.version, folder, kernel, binary)
        }
        Tool::Nvrtc(nvrtc) => {
            let (nvrtc, folder_of, target_of) =
                (Arc::clone(nvrtc), folder.to_owned(), target.to_owned());
            let path = kernel.path.clone();
            let make = move |binary: &Path| {
                let read = |path: &Path| fs::read_to_string(path).map_err(|e| e.to_string());
                let text = read(&folder_of.join(&path))?;
                let headers = files(&folder_of.join("include"), "h").map_err(|e| e.to_string())?;
                let headers = headers.iter().map(|path| {
                    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    Ok((name, read(path)?))
                });
                let headers = headers.collect::<Result<Vec<_>, String>>()?;
                let bytes = nvrtc.compile((&path, &text), &headers, &target_of)?;
                fs::write(binary, bytes).map_err(|error| error.to_string())
            };
            Job::new((&compiler.version, target), folder, kernel, binary, Box::new(make))
        }
    }
}

/// The table of kernels for AMD's GPUs, and the compiler that made their binaries.
fn kernels_amd(root: &Path, out: &Path) -> Outcome<String> {
    let folder = root.join("kernels");
    let list = manifest(&folder, "amd.toml")?;
    let clang = find_clang()?;
    let mut table = String::from("static AMD: &[KernelFile] = &[\n");
    let mut jobs = Vec::new();
    for kernel in &list {
        let Kernel { path, targets, .. } = kernel;
        let mut binaries = String::new();
        for (clang, target) in clang.iter().flat_map(|one| targets.iter().map(move |to| (one, to)))
        {
            if NEWEST.contains(&target.as_str()) && !clang.knows_newest {
                continue;
            }
            let binary = out.join(format!("{}.{target}.hsaco", path.replace('/', "-")));
            let packed = packed(&binary);
            writeln!(binaries, "({target:?}, include_bytes!({packed:?}), 0),")?;
            jobs.push(clang_job(clang, &folder, kernel, target, binary)?);
        }
        let text = folder.join(path);
        writeln!(
            table,
            "    KernelFile {{ path: {path:?}, text: include_str!({text:?}), binaries: &[{binaries}] }},"
        )?;
    }
    compile(jobs)?;
    table.push_str("];\nstatic AMD_COMPILERS: &[(&str, &str)] = &[\n");
    if let Some(Clang { version, knows_newest, .. }) = clang {
        let all = if knows_newest { "all targets" } else { "all targets but the newest" };
        writeln!(table, "    ({version:?}, {all:?}),")?;
    }
    table.push_str("];\n");
    Ok(table)
}

/// Targets that every clang must know which is used, and those of CDNA 5, which clang 22 and ROCm
/// of 2026 know.
const ALL: [&str; 5] = ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"];
const NEWEST: [&str; 2] = ["gfx1250", "gfx1251"];

/// A clang that makes objects for AMD's targets.
struct Clang {
    program: PathBuf,
    version: String,
    knows_newest: bool,
}

/// Whether a clang has the matrix instructions of the newest targets: versions came out that know
/// their names and not these.
fn knows_newest(program: &Path) -> Option<bool> {
    let probe = PathBuf::from(env::var_os("OUT_DIR")?).join("newest.hip");
    let words = "#if !__has_builtin(__builtin_amdgcn_wmma_scale_f32_16x16x128_f8f6f4)\n#error\n\
                 #endif\n";
    fs::write(&probe, words).ok()?;
    let knows = |target: &&str| {
        let mut command = Command::new(program);
        command.args(["-x", "hip", "-nogpuinc", "-nogpulib", "--cuda-device-only", "-E"]);
        let output = command.arg(format!("--offload-arch={target}")).arg(&probe).output();
        output.is_ok_and(|output| output.status.success())
    };
    Some(NEWEST.iter().all(knows))
}

/// The first clang that answers and can make objects for all targets but the newest.
fn find_clang() -> Outcome<Option<Clang>> {
    for variable in ["FIZEAU_CLANG", "ROCM_PATH"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    if mode()? == "off" {
        return Ok(None);
    }
    let named = env::var_os("FIZEAU_CLANG").map(PathBuf::from);
    let rocm = env::var_os("ROCM_PATH").map(PathBuf::from);
    let homes = rocm.into_iter().chain([PathBuf::from("/opt/rocm")]);
    let programs = named.into_iter().chain(homes.map(|home| home.join("llvm/bin/clang")));
    let answers = |program: PathBuf| {
        let output = Command::new(&program).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.lines().next()?.trim().to_owned();
        let targets = Command::new(&program)
            .args(["--target=amdgcn-amd-amdhsa", "--print-supported-cpus"])
            .output()
            .ok()?;
        let known = [&targets.stdout[..], &targets.stderr].concat();
        let known = String::from_utf8_lossy(&known).into_owned();
        let knows_newest = knows_newest(&program)?;
        let fits = ALL.iter().all(|target| known.contains(target));
        fits.then_some(Clang { program, version, knows_newest })
    };
    Ok(programs.into_iter().find_map(answers))
}

/// One file to an object for one target.
fn clang_job(
    Clang { program, version, .. }: &Clang,
    folder: &Path,
    kernel: &Kernel,
    target: &str,
    binary: PathBuf,
) -> Outcome<Job> {
    let mut command = Command::new(program);
    command.args(["-x", "hip", "-nogpuinc", "-nogpulib", "--cuda-device-only", "-O3"]);
    command.args(["-std=c++17", "--no-gpu-bundle-output", "-mcode-object-version=5"]);
    command.arg(format!("--offload-arch={target}"));
    Job::by_command(command, version, folder, kernel, binary)
}

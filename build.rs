//! Embeds the catalogue (`data/`) and the GPU kernels (`kernels/`): their text always, binaries for
//! every target where an nvcc is found.
//!
//! `FIZEAU_KERNELS` says how: `auto` (if absent) compiles where there is an nvcc, `off` never does,
//! `require` fails the build without one. Looked for are `FIZEAU_NVCC`, `CUDA_HOME`, `CUDA_PATH`,
//! `PATH` and /usr/local/cuda. A kernel that does not compile fails the build, whatever the mode.
//!
//! For AMD's targets a clang that knows all of them is looked for in `FIZEAU_CLANG`, `ROCM_PATH` and
//! /opt/rocm, and used unless the mode is `off`; one of another version that `PATH` has is left
//! alone, since it may lack a target or its linker.

use std::{
    collections::BTreeSet,
    env,
    error::Error,
    fmt::Write as _,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::Mutex,
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
    fs::write(out.join("data.rs"), catalogue(&root)?)?;
    fs::write(out.join("headers.rs"), headers(&root)?)?;
    fs::write(out.join("kernels.rs"), kernels(&root, &out)?)?;
    fs::write(out.join("kernels_amd.rs"), kernels_amd(&root, &out)?)?;
    Ok(())
}

/// One table of (folder, name, text) for each TOML file.
fn catalogue(root: &Path) -> Outcome<String> {
    println!("cargo:rerun-if-changed=data");
    let mut table = String::from("&[\n");
    for folder in ["parts", "hosts", "links", "suites"] {
        for path in files(&root.join("data").join(folder), "toml")? {
            let name = path.file_stem().ok_or("a data file has a name")?.to_string_lossy();
            writeln!(table, "    ({folder:?}, {name:?}, include_str!({path:?})),")?;
        }
    }
    table.push_str("]\n");
    Ok(table)
}

/// The table of the headers that kernels may include, as Rust: name and text.
fn headers(root: &Path) -> Outcome<String> {
    let mut table = String::from(
        "/// Files that kernels may include: name and text.\n\
                                  pub static HEADERS: &[(&str, &str)] = &[\n",
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

/// The table of kernels, their headers, and the compiler that made their binaries.
fn kernels(root: &Path, out: &Path) -> Outcome<String> {
    println!("cargo:rerun-if-changed=kernels");
    let folder = root.join("kernels");
    let list = manifest(&folder, "kernels.toml")?;
    let nvcc = find_nvcc()?;
    if let Some(nvcc) = &nvcc {
        // A name that PATH resolves is no file; PATH itself is watched.
        if nvcc.program.is_absolute() {
            println!("cargo:rerun-if-changed={}", nvcc.program.display());
        }
        let jobs = list.iter().map(|kernel| nvcc_job(nvcc, &folder, kernel, out));
        compile(jobs.collect::<Outcome<_>>()?)?;
    }
    let mut table = String::from("static BUNDLED: &[Bundled] = &[\n");
    for Kernel { path, .. } in &list {
        let text = folder.join(path);
        let binaries = match &nvcc {
            Some(_) => format!("Some(include_bytes!({:?}))", out.join(binary_name(path))),
            None => "None".into(),
        };
        writeln!(
            table,
            "    Bundled {{ path: {path:?}, text: include_str!({text:?}), binary: {binaries} }},"
        )?;
    }
    let version = nvcc.map(|nvcc| nvcc.version);
    writeln!(table, "];\nstatic NVCC: Option<&str> = {version:?};")?;
    Ok(table)
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

/// A compiler that was found.
struct Nvcc {
    program: PathBuf,
    /// `release 13.0, V13.0.88`.
    version: String,
    /// Numbers of the targets that it knows.
    known: Vec<String>,
}

/// The first nvcc that answers, as the mode allows.
fn find_nvcc() -> Outcome<Option<Nvcc>> {
    for variable in ["FIZEAU_NVCC", "CUDA_HOME", "CUDA_PATH", "PATH"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let mode = mode()?;
    if mode == "off" {
        return Ok(None);
    }
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os);
    let found = env::var_os("FIZEAU_NVCC")
        .map(PathBuf::from)
        .into_iter()
        .chain(homes.map(|home| Path::new(&home).join("bin/nvcc")))
        .chain(["nvcc", "/usr/local/cuda/bin/nvcc"].map(PathBuf::from))
        .find_map(|program| answers(&program));
    match found {
        None if mode == "require" => {
            Err("FIZEAU_KERNELS=require, and no nvcc answers: set FIZEAU_NVCC or CUDA_HOME".into())
        }
        found => Ok(found),
    }
}

fn answers(program: &Path) -> Option<Nvcc> {
    let say = |argument: &str| {
        let output = Command::new(program).arg(argument).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let version = say("--version")?;
    let release = version.lines().find_map(|line| Some(&line[line.find("release")?..]))?;
    let known = say("--list-gpu-code")?;
    let known = known.split_whitespace().filter_map(|code| code.strip_prefix("sm_"));
    Some(Nvcc {
        program: program.to_owned(),
        version: format!("nvcc {release}"),
        known: known.map(str::to_owned).collect(),
    })
}

/// One run of a compiler.
struct Job {
    /// What is compiled, for messages.
    name: String,
    command: Command,
    binary: PathBuf,
    /// Changes with everything that the binary depends on.
    key: String,
}

impl Job {
    fn new(
        mut command: Command,
        version: &str,
        folder: &Path,
        kernel: &Kernel,
        binary: PathBuf,
    ) -> Outcome<Job> {
        command.arg("-I").arg(folder.join("include"));
        command.arg(folder.join(&kernel.path)).arg("-o").arg(&binary);
        let mut hasher = DefaultHasher::new();
        (version, format!("{command:?}")).hash(&mut hasher);
        hash_text(folder, &folder.join(&kernel.path), &mut BTreeSet::new(), &mut hasher)?;
        let key = format!("{:016x}", hasher.finish());
        Ok(Job { name: format!("{version} refuses {}", kernel.path), command, binary, key })
    }

    /// Compiles, unless the binary of an earlier build is of the same key. The same text gives the
    /// same bytes.
    fn run(mut self) -> Result<(), String> {
        let key = self.binary.with_added_extension("key");
        if self.binary.exists() && fs::read_to_string(&key).is_ok_and(|kept| kept == self.key) {
            return Ok(());
        }
        // Of a binary that is half written, no key is left.
        let _ = fs::remove_file(&key);
        let output = self.command.output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{}:\n{said}", self.name));
        }
        fs::write(key, self.key).map_err(|error| error.to_string())
    }
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

/// One file to one binary with code for every target that this nvcc knows.
fn nvcc_job(nvcc: &Nvcc, folder: &Path, kernel: &Kernel, out: &Path) -> Outcome<Job> {
    let mut command = Command::new(&nvcc.program);
    command.args(["-fatbin", "-std=c++17", "-O3", "--frandom-seed=1"]);
    let number = |target: &str| target.trim_start_matches("sm_").to_owned();
    let plain = |target: &str| number(target).trim_end_matches('a').to_owned();
    let known = kernel.targets.iter().filter(|target| nvcc.known.contains(&plain(target)));
    for target in known {
        let number = number(target);
        command.arg(format!("-gencode=arch=compute_{number},code=sm_{number}"));
    }
    if let Some(ptx) = &kernel.ptx {
        command.arg(format!("-gencode=arch={ptx},code={ptx}"));
    }
    Job::new(command, &nvcc.version, folder, kernel, out.join(binary_name(&kernel.path)))
}

fn binary_name(path: &str) -> String {
    format!("{}.fatbin", path.replace('/', "-").trim_end_matches(".cu"))
}

/// The table of kernels for AMD's GPUs, and the compiler that made their binaries.
fn kernels_amd(root: &Path, out: &Path) -> Outcome<String> {
    let folder = root.join("kernels");
    let list = manifest(&folder, "amd.toml")?;
    let clang = find_clang()?;
    let mut table = String::from("static BUNDLED: &[Files] = &[\n");
    let mut jobs = Vec::new();
    for kernel in &list {
        let Kernel { path, targets, .. } = kernel;
        let mut binaries = String::new();
        for (clang, target) in clang.iter().flat_map(|one| targets.iter().map(move |to| (one, to)))
        {
            let binary = out.join(format!("{}.{target}.hsaco", path.replace('/', "-")));
            writeln!(binaries, "({target:?}, include_bytes!({binary:?})),")?;
            jobs.push(clang_job(clang, &folder, kernel, target, binary)?);
        }
        let text = folder.join(path);
        writeln!(
            table,
            "    Files {{ path: {path:?}, text: include_str!({text:?}), binaries: &[{binaries}] }},"
        )?;
    }
    compile(jobs)?;
    let version = clang.map(|(_, version)| version);
    writeln!(table, "];\nstatic CLANG: Option<&str> = {version:?};")?;
    Ok(table)
}

/// The first clang that answers and can make an object for the newest target; its version.
fn find_clang() -> Outcome<Option<(PathBuf, String)>> {
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
        let all = ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"];
        all.iter().all(|target| known.contains(target)).then_some((program, version))
    };
    Ok(programs.into_iter().find_map(answers))
}

/// One file to an object for one target.
fn clang_job(
    (clang, version): &(PathBuf, String),
    folder: &Path,
    kernel: &Kernel,
    target: &str,
    binary: PathBuf,
) -> Outcome<Job> {
    let mut command = Command::new(clang);
    command.args(["-x", "hip", "-nogpuinc", "-nogpulib", "--cuda-device-only", "-O3"]);
    command.args(["-std=c++17", "--no-gpu-bundle-output", "-mcode-object-version=5"]);
    command.arg(format!("--offload-arch={target}"));
    Job::new(command, version, folder, kernel, binary)
}

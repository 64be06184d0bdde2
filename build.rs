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
    env,
    error::Error,
    fmt::Write as _,
    fs,
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
        compile(nvcc, &folder, &list, out)?;
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

/// Compiles every file, some at a time; the first that fails ends the build with nvcc's words.
fn compile(nvcc: &Nvcc, folder: &Path, list: &[Kernel], out: &Path) -> Outcome<()> {
    // A name that PATH resolves is no file; PATH itself is watched.
    if nvcc.program.is_absolute() {
        println!("cargo:rerun-if-changed={}", nvcc.program.display());
    }
    let jobs = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(2);
    let left = Mutex::new(list.iter());
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let next = left.lock().map(|mut left| left.next()).ok().flatten();
                    let Some(kernel) = next else { break };
                    if let Err(words) = compile_one(nvcc, folder, kernel, out)
                        && let Ok(mut failed) = failed.lock()
                    {
                        failed.push(format!("{}:\n{words}", kernel.path));
                    }
                }
            });
        }
    });
    match failed.into_inner() {
        Ok(failed) if failed.is_empty() => Ok(()),
        Ok(failed) => Err(format!("{} refuses {}", nvcc.version, failed.join("\n")).into()),
        Err(_) => Err("a thread that compiles kernels panicked".into()),
    }
}

/// One file to one binary with code for every target that this nvcc knows. The same text gives the
/// same bytes.
fn compile_one(nvcc: &Nvcc, folder: &Path, kernel: &Kernel, out: &Path) -> Result<(), String> {
    let mut command = Command::new(&nvcc.program);
    command.args(["-fatbin", "-std=c++17", "-O3", "--frandom-seed=1", "-I"]);
    command.arg(folder.join("include"));
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
    command.arg(folder.join(&kernel.path)).arg("-o").arg(out.join(binary_name(&kernel.path)));
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
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
    for Kernel { path, targets, .. } in &list {
        let mut binaries = String::new();
        for target in clang.iter().flat_map(|_| targets) {
            let binary = out.join(format!("{}.{target}.hsaco", path.replace('/', "-")));
            writeln!(binaries, "({target:?}, include_bytes!({binary:?})),")?;
        }
        let text = folder.join(path);
        writeln!(
            table,
            "    Files {{ path: {path:?}, text: include_str!({text:?}), binaries: &[{binaries}] }},"
        )?;
    }
    if let Some((program, _)) = &clang {
        compile_amd(program, &folder, &list, out)?;
    }
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

/// Every file for each of its targets.
fn compile_amd(clang: &Path, folder: &Path, list: &[Kernel], out: &Path) -> Outcome<()> {
    for kernel in list {
        for target in &kernel.targets {
            let binary = out.join(format!("{}.{target}.hsaco", kernel.path.replace('/', "-")));
            let output = Command::new(clang)
                .args(["-x", "hip", "-nogpuinc", "-nogpulib", "--cuda-device-only", "-O3"])
                .args(["-std=c++17", "--no-gpu-bundle-output", "-mcode-object-version=5"])
                .arg(format!("--offload-arch={target}"))
                .arg("-I")
                .arg(folder.join("include"))
                .arg(folder.join(&kernel.path))
                .arg("-o")
                .arg(&binary)
                .output()?;
            if !output.status.success() {
                let words = String::from_utf8_lossy(&output.stderr);
                return Err(format!("{} for {target}:\n{words}", kernel.path).into());
            }
        }
    }
    Ok(())
}

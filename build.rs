//! Embeds the catalogue (`data/`): one table of (folder, name, text) for each TOML file.

use std::{env, error::Error, fmt::Write as _, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=data");
    let root = env::var("CARGO_MANIFEST_DIR")?;
    let mut table = String::from("&[\n");
    for folder in ["parts", "hosts", "links", "suites"] {
        let mut paths: Vec<_> = fs::read_dir(Path::new(&root).join("data").join(folder))?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
        paths.sort();
        for path in paths {
            let name = path.file_stem().ok_or("a data file has a name")?.to_string_lossy();
            writeln!(table, "    ({folder:?}, {name:?}, include_str!({path:?})),")?;
        }
    }
    table.push_str("]\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("data.rs"), table)?;
    Ok(())
}

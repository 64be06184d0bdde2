//! A folder of a checkpoint as a model: its config.json, beside the headers of its safetensors
//! files. Of the files nothing but headers is read, within limits.

use fizeau_domain::{
    model::{
        Model,
        checkpoint::{FILES_MAX, HEADER_MAX, HEADERS_MAX, Stored, total_of_index},
        config,
    },
    units::Bytes,
};
use fizeau_record::file;
use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

/// Longest index, in bytes: one line for each tensor.
const INDEX_MAX: u64 = 64 << 20;

/// The index that publishers put beside files of one checkpoint.
const INDEX: &str = "model.safetensors.index.json";

/// The model of a folder. Where its files hold something else than its configuration implies, its
/// notes say so.
///
/// # Errors
/// In words: what cannot be read, and of which file.
pub fn model(folder: &Path) -> Result<Model, String> {
    let path = folder.join("config.json");
    let say = |path: &Path, why: String| format!("{}: {why}", path.display());
    let text = file::read_text(&path, config::TEXT_MAX);
    let text = text.map_err(|error| say(&path, error.to_string()))?;
    let name = folder.to_string_lossy();
    let mut model = config::parse(&name, &text).map_err(|error| say(&path, error.to_string()))?;
    let notes = beside(folder, &model)?;
    model.notes.extend(notes);
    Ok(model)
}

/// What the files say beside the configuration.
fn beside(folder: &Path, model: &Model) -> Result<Vec<String>, String> {
    let files = files(folder)?;
    if files.is_empty() {
        let path = folder.join(INDEX);
        if !path.exists() {
            return Ok(Vec::new());
        }
        let say = |why: String| format!("{}: {why}", path.display());
        let text = file::read_text(&path, INDEX_MAX).map_err(|error| say(error.to_string()))?;
        let total = total_of_index(&text).map_err(say)?;
        let implied = model.weight_bytes();
        let differs = total.filter(|total| (total - implied).abs() > 0.01 * implied.max(*total));
        return Ok(differs
            .into_iter()
            .map(|total| {
                format!(
                    "the index states {} of tensors, and the configuration implies {} without \
                 encoders and norms",
                    Bytes(total as u64),
                    Bytes(implied as u64)
                )
            })
            .collect());
    }
    let mut stored = Stored::default();
    let mut headers = 0;
    for path in &files {
        let say = |why: String| format!("{}: {why}", path.display());
        let (header, data) = header(path).map_err(say)?;
        headers += header.len() as u64;
        if headers > HEADERS_MAX {
            return Err(say(format!("headers of more than {} in all", Bytes(HEADERS_MAX))));
        }
        stored.add(&header, data, model.layer_count()).map_err(say)?;
    }
    let mut notes = stored.differences(model);
    if notes.is_empty() {
        notes.push(format!(
            "headers of {} tensors agree with the configuration, within 1 % of each kind",
            stored.tensors
        ));
    }
    Ok(notes)
}

/// The safetensors files of a folder, in alphabetical order.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let say = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(say)? {
        let path = entry.map_err(say)?.path();
        if path.extension().is_some_and(|ending| ending == "safetensors") {
            found.push(path);
        }
        if found.len() > FILES_MAX {
            return Err(format!(
                "{}: more than {FILES_MAX} safetensors files; give its config.json instead",
                folder.display()
            ));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The header of a file, and the bytes of its data.
fn header(path: &Path) -> Result<(String, u64), String> {
    let words = |error: std::io::Error| error.to_string();
    let mut file = file::open(path).map_err(words)?;
    let about = file.metadata().map_err(words)?;
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(|_| "it is shorter than the 8 bytes of a length")?;
    let length = u64::from_le_bytes(length);
    let rest = about.len().saturating_sub(8);
    if length > HEADER_MAX || length > rest {
        return Err(format!(
            "its header would have {length} bytes, of {rest} in the file and {HEADER_MAX} at \
             most: it is no safetensors file, or it is cut off"
        ));
    }
    let mut text = Vec::new();
    file.take(length).read_to_end(&mut text).map_err(words)?;
    let text = String::from_utf8(text).map_err(|_| "its header is not UTF-8")?;
    Ok((text, rest - length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with a configuration, and a file that begins with these bytes.
    fn folder(begin: &[u8]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let config = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
            "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}"#;
        fs::write(folder.path().join("config.json"), config).expect("written");
        fs::write(folder.path().join("model.safetensors"), begin).expect("written");
        folder
    }

    fn of(header: &str, data: usize) -> Vec<u8> {
        let length = (header.len() as u64).to_le_bytes();
        [&length[..], header.as_bytes(), &vec![0; data][..]].concat()
    }

    #[test]
    fn what_files_hold_stands_beside_the_configuration() {
        let half = r#"{"lm_head.weight":{"dtype":"BF16","shape":[50,64],"data_offsets":[0,6400]}}"#;
        let folder = folder(&of(half, 6400));
        let model = model(folder.path()).expect("understood");
        let notes = model.notes.join("; ");
        assert!(notes.contains("of head") && notes.contains("of attention"), "{notes}");
    }

    #[test]
    fn files_that_are_no_checkpoint_are_refused_by_their_name() {
        for (bytes, why) in [
            (vec![1, 2, 3], "shorter than"),
            (u64::MAX.to_le_bytes().to_vec(), "would have"),
            (of("{}", 0)[..9].to_vec(), "cut off"),
            (of("[]", 0), "no JSON object"),
        ] {
            let folder = folder(&bytes);
            let error = model(folder.path()).expect_err(why);
            assert!(error.contains(why) && error.contains("model.safetensors"), "{error}");
        }
        let many = folder(&of("{}", 0));
        for at in 0..FILES_MAX {
            fs::write(many.path().join(format!("{at}.safetensors")), "").expect("written");
        }
        let error = model(many.path()).expect_err("many");
        assert!(error.contains("more than"), "{error}");
    }
}

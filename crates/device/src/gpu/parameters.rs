//! What a user's kernel takes, beside what its launches give.

use super::module::Entry;
use crate::{DeviceError, Result, user::UserFile};
use fizeau_domain::kernel::manifest::{KernelRow, Map, Repeat};

/// Bytes of a tensor map among a kernel's parameters: `CUtensorMap`.
const MAP_BYTES: usize = 128;

/// An error where a user's kernel takes other parameters than it will be given: the driver would
/// read past them.
///
/// # Errors
///
/// Both lists of parameters, in words.
pub fn check(entry: &Entry, row: &KernelRow, user: &UserFile) -> Result<()> {
    let Some(takes) = entry.parameters()? else { return Ok(()) };
    let zeros = row.operation.params();
    let mut given = vec![(zeros.struct_name().to_owned(), zeros.bytes().len())];
    if row.repeat == Repeat::Inside {
        given.push(("the repeat count".into(), size_of::<u32>()));
    }
    if row.scratch > 0 {
        given.push(("the address of the scratch memory".into(), size_of::<u64>()));
    }
    let map = |map: &Map| (format!("the tensor map of {:?}", map.operand), MAP_BYTES);
    given.extend(row.maps.iter().map(map));
    if given.iter().map(|(_, bytes)| *bytes).eq(takes.iter().copied()) {
        return Ok(());
    }
    let takes = match takes.as_slice() {
        [] => "no parameters".to_owned(),
        [bytes] => format!("one parameter of {bytes} bytes"),
        several => {
            let bytes: Vec<String> = several.iter().map(usize::to_string).collect();
            format!("{} parameters of {} bytes", several.len(), bytes.join(", "))
        }
    };
    let given: Vec<String> =
        given.into_iter().map(|(what, bytes)| format!("{what} ({bytes} bytes)")).collect();
    Err(DeviceError::Launch {
        kernel: entry.name.clone(),
        why: format!(
            "it takes {takes}, where {} has it given {}",
            user.section_path(),
            given.join(", ")
        ),
    })
}

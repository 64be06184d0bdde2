//! Which devices a user lets the driver show.

use std::ffi::c_int;

/// How a driver is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// By `CUDA_VISIBLE_DEVICES` (CUDA programming guide, "CUDA environment variables").
    Nvidia,
    /// By `ROCR_VISIBLE_DEVICES`, and of what that leaves by `HIP_VISIBLE_DEVICES`, or by
    /// `CUDA_VISIBLE_DEVICES` where that is not set (AMD, "GPU isolation techniques").
    Amd,
}

/// A device: its number among all, and the UUIDs that it is known by.
pub type Known = (c_int, Vec<String>);

/// The devices that are left, in the order in which the driver numbers them.
pub fn devices(
    all: Vec<Known>,
    vendor: Vendor,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<c_int> {
    let left = match vendor {
        Vendor::Nvidia => narrowed(all, variable("CUDA_VISIBLE_DEVICES").as_deref()),
        Vendor::Amd => {
            let by_runtime = narrowed(all, variable("ROCR_VISIBLE_DEVICES").as_deref());
            let by_hip =
                variable("HIP_VISIBLE_DEVICES").or_else(|| variable("CUDA_VISIBLE_DEVICES"));
            narrowed(by_runtime, by_hip.as_deref())
        }
    };
    left.into_iter().map(|(number, _)| number).collect()
}

/// What a list leaves: up to its first word that names no device, and nothing where it names one
/// twice.
fn narrowed(all: Vec<Known>, list: Option<&str>) -> Vec<Known> {
    let Some(list) = list else { return all };
    let mut left: Vec<Known> = Vec::new();
    for word in list.split(',').map(str::trim) {
        let Some(found) = named(&all, word) else { break };
        if left.contains(found) {
            return Vec::new();
        }
        left.push(found.clone());
    }
    left
}

/// The device of an index, or of a UUID or its beginning, where that is one device's alone.
fn named<'k>(all: &'k [Known], word: &str) -> Option<&'k Known> {
    if let Ok(index) = word.parse::<usize>() {
        return all.get(index);
    }
    let is_uuid = word.starts_with("GPU-") || word.starts_with("MIG-");
    let has = |uuid: &String| uuid.to_lowercase().starts_with(&word.to_lowercase());
    let mut found = all.iter().filter(|(_, uuids)| uuids.iter().any(has));
    let first = found.next().filter(|_| is_uuid)?;
    found.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(vendor: Vendor, set: &[(&str, &str)]) -> Vec<c_int> {
        let known = |number: c_int| (number, vec![format!("GPU-5{number}aa-bb")]);
        let variable = |name: &str| {
            let its = set.iter().find(|(of, _)| *of == name);
            its.map(|(_, value)| (*value).to_owned())
        };
        devices((0..4).map(known).collect(), vendor, variable)
    }

    #[test]
    fn nvidias_variable_takes_indices_and_uuids() {
        let of = |list| left(Vendor::Nvidia, &[("CUDA_VISIBLE_DEVICES", list)]);
        assert_eq!(left(Vendor::Nvidia, &[]), [0, 1, 2, 3]);
        assert_eq!(of("2,0"), [2, 0]);
        assert_eq!(of("GPU-53aa,1"), [3, 1]);
        assert_eq!(of("1,9,0"), [1], "the list ends at what is no device");
        for none in ["", "-1", "1,1", "GPU-5", "53aa", "NoDevFiles"] {
            assert_eq!(of(none), [], "{none:?}");
        }
    }

    #[test]
    fn amds_variables_narrow_each_other() {
        let both = [("ROCR_VISIBLE_DEVICES", "3,1"), ("HIP_VISIBLE_DEVICES", "1")];
        assert_eq!(left(Vendor::Amd, &both), [1]);
        let either = [("CUDA_VISIBLE_DEVICES", "2")];
        assert_eq!(left(Vendor::Amd, &either), [2]);
        let own = [("CUDA_VISIBLE_DEVICES", "2"), ("HIP_VISIBLE_DEVICES", "0")];
        assert_eq!(left(Vendor::Amd, &own), [0]);
        assert_eq!(left(Vendor::Nvidia, &[("HIP_VISIBLE_DEVICES", "0")]), [0, 1, 2, 3]);
    }
}

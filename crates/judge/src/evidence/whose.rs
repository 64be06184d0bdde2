//! Whether the identity of a bundle is that of the machine that its states and records are of.

use fizeau_domain::node_state::{self, NodeState};
use fizeau_record::{
    Record,
    identity::{Gpu, Identity},
};

/// What a bundle says of its machine.
pub struct Told<'s> {
    /// The node, as the verdict names it.
    pub node: Option<&'s str>,
    /// The node at rest, before and after everything was measured.
    pub states: [&'s NodeState; 2],
    /// What was measured.
    pub records: Vec<&'s Record>,
}

/// Sets an identity beside the rest of a bundle: what cannot be decided, in words. What is absent
/// on one side is not compared.
///
/// # Errors
/// In words: the first thing in which it is of another machine.
pub fn compare(identity: &Identity, told: &Told<'_>) -> Result<Vec<String>, String> {
    let host = identity.host.as_deref();
    differ("host", host, told.node, "the verdict")?;
    for gpu in &identity.gpus {
        is_known(gpu, told.states)?;
    }
    for record in &told.records {
        let of = format!("the record of run {}", record.header.run);
        let environment = &record.header.environment;
        differ("host", host, environment.host.as_deref(), &of)?;
        let device = &record.header.device;
        let name = format!("{}:{}", device.backend, device.ordinal);
        let Some(gpu) = identity.gpus.iter().find(|gpu| gpu.device == name) else { continue };
        // Several ranks have a board each, and a record names one.
        let own = environment.board.as_ref().filter(|_| environment.ranks.is_empty());
        let uuid = own.and_then(|board| board.uuid.as_deref());
        differ("GPU", gpu.uuid.as_deref(), uuid, &of)?;
        differ("product", gpu.product.as_deref(), Some(&device.name), &of)?;
    }
    let mut unclear = Vec::new();
    if let (None, Some(node)) = (host, told.node) {
        unclear
            .push(format!("the identity does not name its host, which the verdict calls {node}"));
    }
    let [_, after] = told.states;
    let is_missing =
        |one: &&node_state::Gpu| !identity.gpus.iter().any(|gpu| gpu.device == one.name);
    let missing = after.gpus.iter().filter(is_missing);
    let words = |one: &node_state::Gpu| {
        format!(
            "the identity does not have {}, which was there after everything was measured",
            one.name
        )
    };
    unclear.extend(missing.map(words));
    Ok(unclear)
}

/// Whether a GPU was there when the node was at rest, and is the same.
fn is_known(gpu: &Gpu, states: [&NodeState; 2]) -> Result<(), String> {
    let mut known =
        states.iter().flat_map(|state| &state.gpus).filter(|one| one.name == gpu.device);
    let Some(one) = known.next_back() else {
        return Err(format!("its GPU {} was not there when the node was at rest", gpu.device));
    };
    let state = format!("the state of {}", gpu.device);
    let lower = |text: &Option<String>| text.as_ref().map(|text| text.to_lowercase());
    for (what, own, other) in [
        ("GPU", &gpu.uuid, &one.uuid),
        ("place on the PCI bus", &lower(&gpu.pci), &lower(&one.pci)),
        ("driver", &gpu.driver, &one.driver),
        ("VBIOS", &gpu.vbios, &one.firmware),
    ] {
        differ(what, own.as_deref(), other.as_deref(), &state)?;
    }
    match gpu.stub == one.stub {
        true => Ok(()),
        false => Err(format!("its GPU {} is a stub there or here, and not both", gpu.device)),
    }
}

fn differ(what: &str, own: Option<&str>, other: Option<&str>, of: &str) -> Result<(), String> {
    match (own, other) {
        (Some(own), Some(other)) if own != other => {
            Err(format!("its {what} is {own}, and {of} has {other}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(states: [&NodeState; 2]) -> Told<'_> {
        Told { node: Some("n1"), states, records: Vec::new() }
    }

    #[test]
    fn an_identity_has_the_gpus_that_were_there() {
        let known = |name: &str, pci: &str| node_state::Gpu {
            name: name.into(),
            pci: Some(pci.into()),
            driver: Some("580".into()),
            ..node_state::Gpu::default()
        };
        let state = NodeState {
            gpus: vec![known("cuda:0", "0000:1A:00.0"), known("cuda:1", "0000:1b:00.0")],
            ..NodeState::default()
        };
        let gpu = |device: &str, pci: &str| Gpu {
            device: device.into(),
            pci: Some(pci.into()),
            serial: Some("7".into()),
            ..Gpu::default()
        };
        let own = Identity {
            host: Some("n1".into()),
            gpus: vec![gpu("cuda:0", "0000:1a:00.0"), gpu("cuda:1", "0000:1b:00.0")],
            ..Identity::default()
        };
        let both = [&state, &state];
        assert_eq!(compare(&own, &told(both)), Ok(Vec::new()));
        let changed = |change: &dyn Fn(&mut Identity)| {
            let mut other = own.clone();
            change(&mut other);
            compare(&other, &told(both))
        };
        let fault = |change: &dyn Fn(&mut Identity)| changed(change).expect_err("another machine");
        let words = fault(&|one| one.gpus.push(gpu("cuda:2", "0000:1c:00.0")));
        assert!(words.contains("cuda:2 was not there"), "{words}");
        let words = fault(&|one| one.gpus[1].pci = Some("0000:1c:00.0".into()));
        assert!(words.contains("place on the PCI bus is 0000:1c:00.0"), "{words}");
        let words = fault(&|one| one.gpus[0].driver = Some("580x".into()));
        assert!(words.contains("driver is 580x"), "{words}");
        let words = fault(&|one| one.gpus[0].stub = true);
        assert!(words.contains("cuda:0 is a stub"), "{words}");
        let words = fault(&|one| one.host = Some("n2".into()));
        assert_eq!(words, "its host is n2, and the verdict has n1");
        // One that the identity leaves out may have fallen off the bus at that moment.
        let unclear = changed(&|one| drop(one.gpus.pop())).expect("unclear");
        assert!(unclear.len() == 1 && unclear[0].contains("cuda:1"), "{unclear:?}");
    }
}

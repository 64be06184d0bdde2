//! Network interfaces for messages: InfiniBand and RoCE, as sysfs shows them.

use super::{names, word};
use fizeau_domain::node_state::Interface;
use std::path::Path;

/// Counters of a port that stay 0 on a good link.
const ERRORS: [&str; 8] = [
    "symbol_error",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_xmit_discards",
    "excessive_buffer_overrun_errors",
];

/// Every port of every interface.
pub fn interfaces(root: &Path) -> Vec<Interface> {
    let devices = root.join("sys/class/infiniband");
    let mut all = Vec::new();
    for device in names(&devices) {
        let ports = devices.join(&device).join("ports");
        let firmware = word(&devices.join(&device).join("fw_ver"));
        for port in names(&ports) {
            let folder = ports.join(&port);
            let errors = ERRORS.iter().filter_map(|counter| {
                let count: u64 = word(&folder.join("counters").join(counter))?.parse().ok()?;
                (count > 0).then(|| ((*counter).to_owned(), count))
            });
            let rate = word(&folder.join("rate"));
            let gigabits = rate.and_then(|rate| rate.split_whitespace().next()?.parse().ok());
            all.push(Interface {
                name: format!("{device}/{port}"),
                state: word(&folder.join("state")),
                physical: word(&folder.join("phys_state")),
                gigabits,
                firmware: firmware.clone(),
                errors: errors.collect(),
            });
        }
    }
    all
}

//! Who was judged: machine, GPUs, network interfaces, as far as they tell. `None` means that
//! something was not told; many serial numbers are for root alone.

use super::redact::Redactor;
use serde::{Deserialize, Serialize};

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Identity {
    /// The host's name, unless it was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Release of the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// What the firmware tells of machine, board and chassis.
    pub machine: Machine,
    /// The GPUs.
    pub gpus: Vec<Gpu>,
    /// Network interfaces for messages (InfiniBand, RoCE).
    pub interfaces: Vec<Interface>,
}

/// What the firmware's tables tell (`/sys/class/dmi/id`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Who made the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Its model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// Its serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Its UUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Model of the board.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub board: Option<String>,
    /// Serial number of the board.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub board_serial: Option<String>,
    /// Serial number of the chassis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chassis_serial: Option<String>,
    /// The owner's own tag of the chassis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asset_tag: Option<String>,
    /// Version of the firmware (BIOS).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bios: Option<String>,
    /// Date of the firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bios_date: Option<String>,
}

/// A GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gpu {
    /// As `fizeau devices` names it.
    pub device: String,
    /// The product.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// Its place on the PCI bus, `0000:1a:00.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
    /// The slot of the chassis, as the kernel names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// The driver's own number for it, of a slice where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Serial number of the board (AMD: unique number of the chip where the board tells none).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// The number of the domain that joins it to other GPUs, perhaps of other nodes: the cluster's
    /// UUID (NVLink), the hive's number (xGMI).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The vendor's number of the board's model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_number: Option<String>,
    /// Version of the firmware (VBIOS).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vbios: Option<String>,
    /// Version of the board's own memory of what it is (InfoROM).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inforom: Option<String>,
    /// Version of the driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Whether a stub driver stands in for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stub: bool,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Interface {
    /// As the kernel names it, `mlx5_0`.
    pub name: String,
    /// Its place on the PCI bus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
    /// Model, as the driver tells (`MT4129`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The vendor's number of the board's configuration (PSID).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub board: Option<String>,
    /// Version of the firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// Its GUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guid: Option<String>,
    /// MAC addresses of its Ethernet ports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub macs: Vec<String>,
    /// The vendor's number of the model, by the board's vital product data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_number: Option<String>,
    /// Serial number, by the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
}

impl Identity {
    /// What identifies this one machine by number: serial numbers, UUIDs, GUIDs, MAC addresses.
    pub fn serials(&self) -> Vec<String> {
        let mut all = self.clone();
        all.serials_mut().into_iter().map(|one| one.clone()).collect()
    }

    /// With names and numbers replaced, as far as the redactor is to.
    pub fn redacted(mut self, redactor: &Redactor) -> Identity {
        if let Some(host) = &mut self.host {
            *host = redactor.name(host);
        }
        for serial in self.serials_mut() {
            *serial = redactor.serial(serial);
        }
        self
    }

    fn serials_mut(&mut self) -> Vec<&mut String> {
        let Machine { serial, uuid, board_serial, chassis_serial, asset_tag, .. } =
            &mut self.machine;
        let of_machine = [serial, uuid, board_serial, chassis_serial, asset_tag];
        let of_gpus =
            self.gpus.iter_mut().flat_map(|gpu| [&mut gpu.uuid, &mut gpu.serial, &mut gpu.domain]);
        let mut all: Vec<&mut String> = of_machine.into_iter().chain(of_gpus).flatten().collect();
        for interface in &mut self.interfaces {
            let Interface { guid, macs, serial, .. } = interface;
            all.extend([guid, serial].into_iter().flatten());
            all.extend(macs);
        }
        all
    }
}

/// What a board's vital product data tells: its part number and its serial number (PCI Local Bus
/// Specification 3.0, appendix I). Data that is cut short tells nothing more.
pub fn vital_product_data(data: &[u8]) -> [Option<String>; 2] {
    /// Tag of the large resource that holds the read-only fields.
    const READ_ONLY: u8 = 0x90;
    let [mut part, mut serial] = [None, None];
    let mut rest = data;
    while let [tag, low, high, after @ ..] = rest {
        // Small resources end the list; only large ones have a length of two bytes.
        if tag & 0x80 == 0 {
            break;
        }
        let length = usize::from(u16::from_le_bytes([*low, *high]));
        let Some(mut fields) = after.get(..length) else { break };
        while let ([a, b, size, values @ ..], READ_ONLY) = (fields, *tag) {
            let Some(value) = values.get(..usize::from(*size)) else { break };
            let text = String::from_utf8_lossy(value);
            let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned();
            match [*a, *b] {
                [b'P', b'N'] => part = Some(text),
                [b'S', b'N'] => serial = Some(text),
                _ => {}
            }
            fields = &values[usize::from(*size)..];
        }
        rest = &after[length..];
    }
    [part, serial].map(|one| one.filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn part_and_serial_number_are_read_from_a_boards_data() {
        let fields = b"PN\x08MCX75310SN\x06MT2317EC\x02XX";
        let large = |tag: u8, data: &[u8]| {
            let length = (data.len() as u16).to_le_bytes();
            [&[tag][..], &length, data].concat()
        };
        let data = [large(0x82, b"ConnectX-7"), large(0x90, fields), vec![0x78]].concat();
        let found = vital_product_data(&data);
        assert_eq!(found, [Some("MCX75310".into()), Some("MT2317".into())]);
        assert_eq!(vital_product_data(&data[..20]), [None, None]);
        assert_eq!(vital_product_data(b"\x78"), [None, None]);
    }

    proptest! {
        #[test]
        fn any_data_is_read_to_its_end(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = vital_product_data(&data);
        }
    }
}

//! What `doctor` finds of a driver, a library or a device.

use super::{DeviceError, Result};
use serde::Serialize;

/// How good or bad a [`Finding`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// Not installed, which is no fault of a machine that does not need it.
    Absent,
    /// Figures may be lower or noisier than they could be, or less is measured.
    Warn,
    /// Figures made here would be spoilt, or a device cannot be measured.
    Fail,
}

/// Something that was looked at, and what was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How good it is.
    pub state: State,
    /// What was looked at.
    pub what: String,
    /// What was found.
    pub found: String,
    /// What to do about it; empty where nothing has to be done.
    pub remedy: String,
}

impl Finding {
    /// As it should be.
    pub fn ok(what: &str, found: impl Into<String>) -> Finding {
        Finding { state: State::Ok, what: what.into(), found: found.into(), remedy: String::new() }
    }

    /// What was found, or why it could not be opened.
    pub fn of(what: &str, found: Result<String>, otherwise: State) -> Finding {
        match found {
            Ok(found) => Finding::ok(what, found),
            Err(error) => Finding::of_error(what, &error, otherwise),
        }
    }

    /// Why something could not be opened: absent where it is not installed, else as bad as is said.
    fn of_error(what: &str, error: &DeviceError, otherwise: State) -> Finding {
        let (state, found, remedy) = match error {
            DeviceError::Missing { what, remedy } => {
                (State::Absent, format!("{what} not found"), remedy.clone())
            }
            DeviceError::NoDevice { what, remedy } => {
                (State::Warn, format!("the driver shows no {what}"), remedy.clone())
            }
            DeviceError::Broken { what, why, remedy } => {
                (otherwise, format!("{what} does not work ({why})"), remedy.clone())
            }
            other => (otherwise, other.to_string(), String::new()),
        };
        Finding { state, what: what.into(), found, remedy }
    }
}

//! In which format each kind of weight is stored.

use super::{Format, Module};
use std::collections::BTreeSet;

/// The format of each kind of weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precision {
    formats: [Format; Module::ALL.len()],
}

impl Precision {
    /// All in one format.
    pub fn all(format: Format) -> Precision {
        Precision { formats: [format; Module::ALL.len()] }
    }

    /// Of a module.
    pub fn of(&self, module: Module) -> Format {
        self.formats[module as usize]
    }

    /// Sets that of some modules.
    pub fn set(&mut self, modules: &[Module], format: Format) {
        for module in modules {
            self.formats[*module as usize] = format;
        }
    }

    /// All linear layers of the model's layers in one format; embedding, output layer and routers
    /// as they are. What engines do with `--quantization`.
    pub fn with_linear(mut self, format: Format) -> Precision {
        self.set(&LINEAR, format);
        self
    }

    /// As a text says: `fp8` for all linear layers, or `experts=mxfp4,attention=fp8`.
    ///
    /// # Errors
    /// In words: what is no format or no module, or stands twice.
    pub fn stored_as(mut self, text: &str) -> Result<Precision, String> {
        let mut seen = BTreeSet::new();
        let text = &*text.to_ascii_lowercase();
        for part in text.split(',') {
            let place = part.split_once('=').map_or("all linear layers", |(name, _)| name);
            if !seen.insert(place) {
                return Err(format!("{text:?} states {place} twice"));
            }
            match part.split_once('=') {
                None => self = self.with_linear(part.parse()?),
                Some((name, format)) => {
                    let module = Module::ALL.into_iter().find(|module| module.name() == name);
                    let module = module.ok_or_else(|| {
                        let known = Module::ALL.map(Module::name).join(", ");
                        format!("{name:?} is none of {known}")
                    })?;
                    self.set(&[module], format.parse()?);
                }
            }
        }
        Ok(self)
    }

    /// In words: `fp8, but router, embedding and head bf16`.
    pub fn describe(&self) -> String {
        let linear = self.of(Module::Experts);
        let others: Vec<_> = Module::ALL
            .into_iter()
            .filter(|module| self.of(*module) != linear)
            .map(|module| format!("{} {}", module.name(), self.of(module)))
            .collect();
        if others.is_empty() {
            return linear.to_string();
        }
        format!("{linear}, but {}", others.join(", "))
    }
}

/// What quantisation means where nothing else is said.
pub(super) const LINEAR: [Module; 4] =
    [Module::Attention, Module::Dense, Module::Experts, Module::Shared];

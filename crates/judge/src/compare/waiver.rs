//! What may get slower.

use fizeau_domain::selector::{Selector, SelectorError};
use std::str::FromStr;

/// Says beforehand that some cases may be slower or broken.
#[derive(Clone, Debug)]
pub struct Waiver {
    selector: Selector,
    /// Why, as it was given.
    pub reason: Option<String>,
    /// As it was written.
    pub words: String,
}

impl FromStr for Waiver {
    type Err = SelectorError;

    /// From `SELECTOR` or `SELECTOR=REASON`.
    fn from_str(words: &str) -> Result<Waiver, SelectorError> {
        let (selector, reason) = match words.split_once('=') {
            Some((selector, reason)) => (selector, Some(reason.trim().to_owned())),
            None => (words, None),
        };
        let selector = Selector::parse(&[selector.to_owned()])?;
        Ok(Waiver { selector, reason, words: words.to_owned() })
    }
}

impl Waiver {
    /// Whether it is about a case.
    pub fn knows(&self, id: &str) -> bool {
        self.selector.selects(id)
    }
}

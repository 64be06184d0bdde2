//! Shares of one, as options take them.

/// A share of one, written `0.05` or `5%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl std::str::FromStr for Share {
    type Err = String;
    fn from_str(text: &str) -> Result<Share, String> {
        let (digits, scale) = match text.strip_suffix('%') {
            Some(digits) => (digits, 100.0),
            None => (text, 1.0),
        };
        let number: f64 = digits.trim().parse().map_err(|_| "write 0.05 or 5%".to_owned())?;
        Ok(Share(number / scale))
    }
}

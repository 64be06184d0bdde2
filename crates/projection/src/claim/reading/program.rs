//! Words of the programs that measure links: their options, the sizes of their messages and the
//! headings of their tables.

use super::{Words, beside::number_of};
use crate::claim::{
    vocabulary::{COUNTS, is_device},
    wire::{self, Fabric, Kind, Ways},
};

/// Words by which a text is known to be of such a program.
const PROGRAMS: [&str; 10] = [
    "busbw",
    "algbw",
    "all_",
    "allreduce",
    "all-reduce",
    "_perf",
    "nccl",
    "memcpy",
    "ib_",
    "nvidia-smi",
];

/// Words beside the rates of such a program that do not change what they mean.
const BESIDE: [&str; 14] = [
    "nvidia-smi",
    "message",
    "messages",
    "size",
    "buffer",
    "buffers",
    "nvls",
    "sharp",
    "ring",
    "tree",
    "topology",
    "row",
    "column",
    "matrix",
];

/// Links that a text counts: "18 NVLink links", "eight NDR rails".
const COUNTED: [&str; 7] = ["links", "rails", "ports", "nics", "adapters", "hcas", "interfaces"];

fn is_count(word: &str) -> bool {
    !word.is_empty() && word.len() <= 4 && word.bytes().all(|one| one.is_ascii_digit())
}

impl Words<'_> {
    /// Whether some word has this in it.
    pub(super) fn names(&self, part: &str) -> bool {
        self.words.iter().any(|word| word.to_ascii_lowercase().contains(part))
    }

    /// Whether what follows is a link in the plural, which a number before it counts.
    pub(super) fn is_before_links(&self) -> bool {
        let Some((_, taken)) = wire::fabric_at(&self.words[self.at..]) else { return false };
        let lower = |at: usize| self.words.get(at).map(|word| word.to_ascii_lowercase());
        let is_plural = lower(self.at).is_some_and(|word| word == "nvlinks");
        is_plural || lower(self.at + taken).is_some_and(|word| COUNTED.contains(&&*word))
    }

    /// Takes a word of a program, and those that belong to it.
    pub(super) fn of_program(&mut self, lower: &str) -> Result<bool, String> {
        let next = self.peek();
        if let Some((_, count)) = COUNTS.iter().find(|(name, _)| *name == lower)
            && self.is_before_links()
        {
            self.beside.links = Some(*count);
            return Ok(true);
        }
        // "on NDR", "on an HGX"
        if lower == "on" {
            let is_article = matches!(next.as_str(), "a" | "an" | "the");
            return Ok(is_article || wire::fabric_at(&self.words[self.at..]).is_some());
        }
        let is_index = next.bytes().all(|one| one.is_ascii_digit()) && !next.is_empty();
        if lower == "link" && is_index && self.has_other_number {
            self.at += 1;
            self.beside.link = self.beside.link.or(Some(Fabric::of(Kind::Peers)));
            return Ok(self.parts.take("link"));
        }
        // "TP8": devices that hold one copy of the model.
        if let Some(count) = lower.strip_prefix("tp").filter(|count| is_count(count)) {
            self.set_devices(count)?;
            return Ok(true);
        }
        // "a rack of 72 GPUs": without their number nothing says how large it is.
        if lower == "rack" && self.words.iter().any(|word| word.eq_ignore_ascii_case("gpus")) {
            return Ok(true);
        }
        if !PROGRAMS.iter().any(|name| self.names(name)) {
            return Ok(false);
        }
        if lower.starts_with('-') && lower[1..].starts_with(|c: char| c.is_alphabetic() || c == '-')
        {
            self.option(lower, &next)?;
            return Ok(true);
        }
        if lower == "memcpy" {
            let kind =
                if self.names("cpu") || self.names("host") { Kind::Host } else { Kind::Peers };
            self.beside.link = self.beside.link.or(Some(Fabric::of(kind)));
            (self.is_measured, self.beside.ways) = (true, self.beside.ways.or(Some(Ways::One)));
            self.take_if(|word| matches!(word, "ce" | "sm" | "tma"));
            return Ok(true);
        }
        let links = lower.strip_prefix("nv").unwrap_or_default();
        let is_of_topology = !links.is_empty() && links.bytes().all(|one| one.is_ascii_digit());
        Ok(is_of_topology || self.message(lower) || BESIDE.contains(&lower))
    }

    /// An option with its value. GPUs of each thread, and threads, are devices.
    fn option(&mut self, name: &str, value: &str) -> Result<(), String> {
        let digits = value.trim_end_matches(['k', 'm', 'g', 'b', 'i']);
        let has_value = !digits.is_empty() && digits.bytes().all(|one| one.is_ascii_digit());
        if !has_value {
            return Ok(());
        }
        self.at += 1;
        if matches!(name, "-g" | "-t" | "--ngpus" | "--nthreads") && digits != "0" {
            let more: u32 = digits.parse().map_err(|_| format!("{digits:?} GPUs: how many?"))?;
            let before = self.devices.unwrap_or(1);
            self.devices = Some(before.saturating_mul(more));
        }
        Ok(())
    }

    /// "16 GiB message", "message size 8G": how much was sent, and no rate.
    fn message(&mut self, lower: &str) -> bool {
        let Some((_, rest)) = number_of(lower) else { return false };
        let is_apart = rest.is_empty();
        let unit = if is_apart { self.peek() } else { rest };
        let is_size = matches!(
            unit.as_str(),
            "b" | "k" | "m" | "g" | "kb" | "mb" | "gb" | "kib" | "mib" | "gib" | "bytes"
        );
        let of_message =
            |word: &str| ["message", "messages", "buffer", "buffers", "size"].contains(&word);
        let after = self.words.get(self.at + usize::from(is_apart));
        let before = self.at.checked_sub(2).map(|at| self.words[at].to_ascii_lowercase());
        let is_said = after.is_some_and(|word| of_message(&word.to_ascii_lowercase()))
            || before.is_some_and(|word| of_message(&word) || word == "@");
        if !(is_size && is_said) || is_device(&unit) {
            return false;
        }
        self.at += usize::from(is_apart);
        true
    }
}

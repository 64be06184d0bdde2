//! Server-sent events (WHATWG HTML, section "Interpreting an event stream"), split at any byte.

/// The most bytes of one event that are read. A token takes some 300 bytes; servers that send a
/// whole answer at once stay far below.
pub const EVENT_MAX: usize = 1 << 20;

/// An event is longer than [`EVENT_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Its data.
    Data(&'a [u8]),
    /// The data of a field `error`, by which llama.cpp tells of errors within a stream.
    Error(&'a [u8]),
}

/// Takes a stream apart.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// The beginning of a line whose end is not there yet.
    line: Vec<u8>,
    /// Data lines of the event so far, joined by line feeds.
    data: Vec<u8>,
    has_data: bool,
    is_error: bool,
    /// The last byte was a carriage return: a line feed right after it ends no second line.
    after_return: bool,
    is_begun: bool,
}

impl Events {
    /// Takes bytes as they come, and hands each event over that they complete, until one is
    /// refused.
    ///
    /// # Errors
    /// [`TooLong`] where a line or an event is, and what `each` refuses with.
    pub fn take<E: From<TooLong>>(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.after_return && !bytes.is_empty() {
            self.after_return = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (head, rest) = bytes.split_at(end);
            if self.line.is_empty() {
                self.end_line(head, &mut each)?;
            } else {
                self.keep(head)?;
                let line = std::mem::take(&mut self.line);
                let ended = self.end_line(&line, &mut each);
                self.line = line;
                self.line.clear();
                ended?;
            }
            bytes = match rest {
                [b'\r', b'\n', rest @ ..] => rest,
                [b'\r'] => {
                    self.after_return = true;
                    &[]
                }
                [_, rest @ ..] => rest,
                [] => &[],
            };
        }
        self.keep(bytes)?;
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + self.data.len() + bytes.len() > EVENT_MAX {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line<E: From<TooLong>>(
        &mut self,
        line: &[u8],
        each: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = match self.is_begun {
            true => line,
            false => line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line),
        };
        self.is_begun = true;
        if line.is_empty() {
            if !std::mem::take(&mut self.has_data) {
                return Ok(());
            }
            let is_error = std::mem::take(&mut self.is_error);
            let event = if is_error { Event::Error(&self.data) } else { Event::Data(&self.data) };
            let told = each(event);
            self.data.clear();
            return told;
        }
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &[][..]),
        };
        if name != b"data" && name != b"error" {
            return Ok(());
        }
        self.is_error |= name == b"error";
        let value = value.strip_prefix(b" ").unwrap_or(value);
        if self.data.len() + value.len() > EVENT_MAX {
            return Err(TooLong.into());
        }
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(pieces: &[&[u8]]) -> Result<Vec<String>, TooLong> {
        let (mut events, mut found) = (Events::default(), Vec::new());
        for piece in pieces {
            events.take(piece, |event| {
                let (mark, data) = match event {
                    Event::Data(data) => ("", data),
                    Event::Error(data) => ("error: ", data),
                };
                found.push(format!("{mark}{}", String::from_utf8_lossy(data)));
                Ok::<(), TooLong>(())
            })?;
        }
        Ok(found)
    }

    #[test]
    fn a_stream_means_the_same_wherever_it_is_split() {
        let stream = "\u{feff}: hello\r\ndata: {\"a\":\r\ndata:  1}\r\n\r\nid: 7\nevent: x\n\
                      data:two\n\n\n\rdata\r\rerror: {\"b\"}\n\ndata: caf\u{e9}\n\ndata: cut"
            .as_bytes();
        let whole = events(&[stream]).expect("short");
        assert_eq!(whole, ["{\"a\":\n 1}", "two", "", "error: {\"b\"}", "caf\u{e9}"]);
        for first in 0..stream.len() {
            let (one, rest) = stream.split_at(first);
            assert_eq!(events(&[one, rest]).expect("short"), whole, "split at {first}");
            let second = (first * 7 + 3) % (rest.len() + 1);
            let (two, three) = rest.split_at(second);
            assert_eq!(events(&[one, two, three]).expect("short"), whole);
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(events(&bytes).expect("short"), whole);
    }

    #[test]
    fn an_event_that_is_too_long_is_refused_however_it_comes() {
        let text = vec![b'x'; EVENT_MAX - 10];
        assert_eq!(events(&[b"data: ", &text, b"\n\n"]).map(|all| all.len()), Ok(1));
        let text = vec![b'x'; EVENT_MAX + 1];
        assert_eq!(events(&[b"data: ", &text, b"\n\n"]), Err(TooLong));
        assert_eq!(events(&[&text]), Err(TooLong));
        let half = [b"data: ", &text[..EVENT_MAX / 2 + 1], b"\n"].concat();
        assert_eq!(events(&[&half, &half]), Err(TooLong));
    }
}

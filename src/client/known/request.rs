//! Requests as the server reads them.

use std::io::{self, Read};

/// A request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Method and path.
    pub line: String,
    /// The header `Authorization`.
    pub authorization: Option<String>,
    /// Level and number of the header `X-Request-Id`, where a client of this program wrote it.
    pub number: Option<(u64, u64)>,
    /// Whether a client of this program sent it.
    pub is_ours: bool,
    /// The body.
    pub body: Vec<u8>,
}

const HEAD_MAX: usize = 64 << 10;
const BODY_MAX: usize = 256 << 20;

/// Reads the next request of a connection; `rest` has what was read beyond the last one. None where
/// the connection ends.
///
/// # Errors
/// Where it ends in the middle, or is no HTTP.
pub fn read(stream: &mut impl Read, rest: &mut Vec<u8>) -> io::Result<Option<Request>> {
    let mut piece = [0; 16 << 10];
    loop {
        if let Some((request, head, length)) = head(rest)? {
            while rest.len() < head + length {
                match stream.read(&mut piece)? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    count => rest.extend_from_slice(&piece[..count]),
                }
            }
            let body = rest[head..head + length].to_vec();
            rest.drain(..head + length);
            return Ok(Some(Request { body, ..request }));
        }
        match stream.read(&mut piece)? {
            0 if rest.is_empty() => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => rest.extend_from_slice(&piece[..count]),
        }
    }
}

/// What stands in the head, its bytes and those of the body; none where it is not whole yet.
fn head(bytes: &[u8]) -> io::Result<Option<(Request, usize, usize)>> {
    let refuse = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    let length = match parsed.parse(bytes).map_err(|error| refuse(&error.to_string()))? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial if bytes.len() > HEAD_MAX => return Err(refuse("a long head")),
        httparse::Status::Partial => return Ok(None),
    };
    let (method, path) = (parsed.method.unwrap_or_default(), parsed.path.unwrap_or_default());
    let mut request = Request { line: format!("{method} {path}"), ..Request::default() };
    let mut body = 0;
    for header in parsed.headers.iter() {
        let value = String::from_utf8_lossy(header.value);
        match header.name.to_ascii_lowercase().as_str() {
            "content-length" => {
                body = value.trim().parse().map_err(|_| refuse("a wrong Content-Length"))?;
            }
            "authorization" => request.authorization = Some(value.into_owned()),
            "x-request-id" => {
                request.number = number(&value);
                request.is_ours = value.starts_with("fizeau-");
            }
            _ => {}
        }
    }
    if body > BODY_MAX {
        return Err(refuse("a long body"));
    }
    Ok(Some((request, length, body)))
}

/// Level and number of `fizeau-SEED-LEVEL-NUMBER`.
fn number(id: &str) -> Option<(u64, u64)> {
    let mut parts = id.strip_prefix("fizeau-")?.split('-').skip(1).map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

//! Ranks meet over TCP at the first one, which listens.
//!
//! The others connect, show the first half of the token, are shown the second, and give their words
//! for those of all. Whoever connects is heard a few bytes at a time beside all others, so that
//! nobody is waited for alone. A stranger may send no more than the token is long, takes one of
//! [`STRANGERS_MAX`] places, and loses it after [`POLITE`], or to one who came later.

use super::{MeetingError, PAUSE, Patience, Seat, broken};
use crate::{
    clock::{self, Moment},
    units::Seconds,
};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    thread,
    time::Duration,
};

/// Longest words of one rank; a connection that says more is none of ours.
const BYTES_MAX: usize = 1 << 20;

/// Who has not shown the token in this time is a stranger.
const POLITE: Seconds = Seconds(5.0);

/// Connections whose token is not known yet, at once.
const STRANGERS_MAX: usize = 256;

/// Longest wait for one address of the first rank.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Gives this rank's bytes and gets those of all, by rank.
pub(super) fn exchange(
    address: &str,
    token: &str,
    seat: Seat,
    mine: &[u8],
    patience: Patience<'_>,
) -> Result<Vec<Vec<u8>>, MeetingError> {
    let halves = token.split_at(token.len() / 2);
    let halves = [halves.0.as_bytes(), halves.1.as_bytes()];
    if seat[0] == 0 {
        serve(address, halves, seat, mine, patience)
    } else {
        visit(address, halves, seat, mine, patience)
    }
}

/// One who has connected to the first rank.
struct Visitor {
    stream: TcpStream,
    came: Moment,
    /// What it has said and was not yet understood.
    said: Vec<u8>,
    /// It has shown the token.
    is_ours: bool,
    rank: Option<u32>,
}

impl Visitor {
    /// Hears what has come, without waiting. Its rank and words once they are whole; an error where
    /// it is none of ours.
    fn hear(&mut self, [ours, theirs]: [&[u8]; 2], size: u32) -> io::Result<Option<Vec<u8>>> {
        let mut chunk = [0; 4096];
        loop {
            // A stranger is not heard further than to the end of the token.
            let all = if self.is_ours { chunk.len() } else { 8 + ours.len() - self.said.len() };
            let most = all.min(chunk.len());
            match self.stream.read(&mut chunk[..most]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.said.extend(&chunk[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let longest = if self.is_ours { BYTES_MAX } else { ours.len() };
            while let Some(word) = first_word(&mut self.said, longest)? {
                if !self.is_ours {
                    if !same(&word, ours) {
                        return Err(io::Error::other("another token"));
                    }
                    self.is_ours = true;
                    // A few bytes, which a new connection has room for.
                    self.stream.write_all(&framed(theirs))?;
                } else if self.rank.is_none() {
                    let rank = word.try_into().map(u32::from_le_bytes);
                    let rank = rank.ok().filter(|rank| (1..size).contains(rank));
                    self.rank = Some(rank.ok_or_else(|| io::Error::other("no rank of ours"))?);
                } else {
                    return Ok(Some(word));
                }
            }
        }
    }

    fn is_stranger(&self) -> bool {
        !self.is_ours && self.came.elapsed() > POLITE
    }
}

/// Takes the first whole word away, if it is there.
fn first_word(said: &mut Vec<u8>, longest: usize) -> io::Result<Option<Vec<u8>>> {
    let Some(length) = said.first_chunk::<8>() else { return Ok(None) };
    let length = u64::from_le_bytes(*length);
    if length > longest as u64 {
        return Err(io::Error::other("too long"));
    }
    let end = 8 + length as usize;
    if said.len() < end {
        return Ok(None);
    }
    let word = said[8..end].to_vec();
    said.drain(..end);
    Ok(Some(word))
}

fn framed(word: &[u8]) -> Vec<u8> {
    [&(word.len() as u64).to_le_bytes(), word].concat()
}

/// The first rank: hears all who connect, until all ranks have said their words.
fn serve(
    address: &str,
    halves: [&[u8]; 2],
    seat: Seat,
    mine: &[u8],
    patience: Patience<'_>,
) -> Result<Vec<Vec<u8>>, MeetingError> {
    let [_, size] = seat;
    let by = format!("tcp {address}");
    let listener = TcpListener::bind(address).map_err(broken(&by))?;
    listener.set_nonblocking(true).map_err(broken(&by))?;
    let mut words: Vec<Option<Vec<u8>>> = vec![None; size as usize];
    words[0] = Some(mine.to_vec());
    let mut visitors: Vec<Visitor> = Vec::new();
    // Those whose words are whole, by rank: the last who came as one of them.
    let mut met: Vec<Option<TcpStream>> = (0..size).map(|_| None).collect();
    while let Some(missing) = words.iter().position(Option::is_none) {
        patience.go_on(missing as u32, seat, &by)?;
        while let Ok((stream, _)) = listener.accept() {
            let strangers = visitors.iter().filter(|visitor| !visitor.is_ours).count();
            if strangers >= STRANGERS_MAX
                && let Some(first) = visitors.iter().position(|visitor| !visitor.is_ours)
            {
                visitors.remove(first);
            }
            if stream.set_nonblocking(true).is_ok() {
                let (came, said) = (clock::now(), Vec::new());
                visitors.push(Visitor { stream, came, said, is_ours: false, rank: None });
            }
            if visitors.len() > size as usize + STRANGERS_MAX {
                break;
            }
        }
        visitors.retain_mut(|visitor| match visitor.hear(halves, size) {
            Ok(None) => !visitor.is_stranger(),
            Ok(Some(word)) => {
                if let (Some(rank), Ok(stream)) = (visitor.rank, visitor.stream.try_clone()) {
                    words[rank as usize] = Some(word);
                    met[rank as usize] = Some(stream);
                }
                false
            }
            // It is not answered. A rank whose connection broke comes again.
            Err(_) => false,
        });
        thread::sleep(PAUSE);
    }
    let all: Vec<Vec<u8>> = words.into_iter().flatten().collect();
    let told: Vec<u8> = all.iter().flat_map(|word| framed(word)).collect();
    for (rank, stream) in met.iter().enumerate() {
        let Some(stream) = stream else { continue };
        let sent = stream.set_nonblocking(false).and_then(|()| {
            let mut stream = Timed { stream, patience };
            stream.write_all(&told)
        });
        sent.map_err(broken(format!("{by}: rank {rank} did not wait for the answer")))?;
    }
    Ok(all)
}

/// A connection of which every single step ends with the patience.
struct Timed<'t> {
    stream: &'t TcpStream,
    patience: Patience<'t>,
}

impl Timed<'_> {
    /// Steps are short, so that an interruption is seen between two.
    fn step(&self) -> io::Result<Duration> {
        const STEP_MAX: Duration = Duration::from_millis(200);
        match self.patience.left() {
            Ok(Some(left)) => Ok(left.min(STEP_MAX)),
            Ok(None) => Err(ErrorKind::TimedOut.into()),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn again<T>(&self, mut step: impl FnMut(Duration) -> io::Result<T>) -> io::Result<T> {
        loop {
            match step(self.step()?) {
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                result => return result,
            }
        }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut stream = self.stream;
        self.again(|limit| {
            stream.set_read_timeout(Some(limit))?;
            stream.read(bytes)
        })
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut stream = self.stream;
        self.again(|limit| {
            stream.set_write_timeout(Some(limit))?;
            stream.write(bytes)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Another rank: comes until it is heard.
fn visit(
    address: &str,
    [ours, theirs]: [&[u8]; 2],
    seat: Seat,
    mine: &[u8],
    patience: Patience<'_>,
) -> Result<Vec<Vec<u8>>, MeetingError> {
    let [rank, size] = seat;
    let attempt = |limit: Duration| -> io::Result<Vec<Vec<u8>>> {
        let places: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
        let mut connected = Err(io::Error::other("no such host"));
        for place in &places {
            connected = TcpStream::connect_timeout(place, CONNECT_MAX.min(limit));
            if connected.is_ok() {
                break;
            }
        }
        let stream = connected?;
        let mut stream = Timed { stream: &stream, patience };
        stream.write_all(&framed(ours))?;
        if !same(&receive(&mut stream)?, theirs) {
            return Err(io::Error::other("the first rank has another token"));
        }
        stream.write_all(&framed(&rank.to_le_bytes()))?;
        stream.write_all(&framed(mine))?;
        (0..size).map(|_| receive(&mut stream)).collect()
    };
    let mut last = io::Error::from(ErrorKind::TimedOut);
    while let Some(left) = patience.left()? {
        match attempt(left) {
            Ok(all) => return Ok(all),
            Err(error) => last = error,
        }
        // The first rank may not listen yet.
        thread::sleep((PAUSE * 5).min(left));
    }
    Err(broken(format!("tcp {address}, within {}", patience.limit))(last))
}

/// In a time that does not tell how much was right.
fn same(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |seen, (a, b)| seen | (a ^ b));
    one.len() == other.len() && differences == 0
}

fn receive(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    stream.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > BYTES_MAX as u64 {
        return Err(io::Error::other("too long"));
    }
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn free() -> String {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        free.local_addr().expect("an address").to_string()
    }

    fn connected(address: &str) -> TcpStream {
        for _ in 0..3000 {
            if let Ok(stream) = TcpStream::connect(address) {
                return stream;
            }
            thread::sleep(PAUSE);
        }
        panic!("nobody listens at {address}");
    }

    /// Three ranks meet while strangers come, each as often as the first rank listens.
    fn meet_beside(stranger: impl Fn(&str) + Sync) {
        let (address, on) = (free(), AtomicBool::new(false));
        let patience = Patience::new(Seconds(60.0), &on);
        thread::scope(|scope| {
            let come = |rank: u32| {
                let words = format!("words of {rank}");
                exchange(&address, TOKEN, [rank, 3], words.as_bytes(), patience).expect("all come")
            };
            let first = scope.spawn(move || come(0));
            stranger(&address);
            let others = [1, 2].map(|rank| scope.spawn(move || come(rank)));
            for rank in std::iter::once(first).chain(others) {
                let all = rank.join().expect("no panic");
                let texts: Vec<_> = all.iter().map(|b| String::from_utf8_lossy(b)).collect();
                assert_eq!(texts, ["words of 0", "words of 1", "words of 2"]);
            }
        });
    }

    #[test]
    fn strangers_are_not_answered() {
        meet_beside(|address| {
            let mut stream = connected(address);
            stream.write_all(&framed(b"a guess")).expect("it is written");
            let mut answer = Vec::new();
            stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
            let read = stream.read_to_end(&mut answer);
            assert!(read.is_err() || answer.is_empty(), "{answer:?}");
        });
    }

    #[test]
    fn strangers_who_say_nothing_do_not_keep_ranks_from_meeting() {
        let start = clock::now();
        let silent = std::sync::Mutex::new(Vec::new());
        meet_beside(|address| {
            // More than there are places, each of which would be waited for.
            let strangers = (0..STRANGERS_MAX + 40).map(|_| connected(address));
            silent.lock().expect("no panic").extend(strangers);
        });
        // One after the other, five seconds each, they would have taken 25 minutes.
        assert!(start.elapsed() < Seconds(60.0));
    }

    #[test]
    fn one_who_speaks_slowly_is_held_to_the_whole_deadline_and_to_few_bytes() {
        let (address, on) = (free(), AtomicBool::new(false));
        let patience = Patience::new(Seconds(3.0), &on);
        let start = clock::now();
        thread::scope(|scope| {
            let first = scope.spawn(|| exchange(&address, TOKEN, [0, 2], b"x", patience));
            let mut slow = connected(&address);
            // A length, then a byte each tenth of a second: each read of it would succeed.
            slow.write_all(&16u64.to_le_bytes()).expect("it is heard");
            while !first.is_finished() && slow.write_all(b"0").is_ok() {
                thread::sleep(Duration::from_millis(100));
            }
            let error = first.join().expect("it ends").expect_err("rank 1 never came");
            assert!(error.to_string().contains("rank 1 did not come within 3.000 s"), "{error}");
        });
        assert!(start.elapsed() < Seconds(40.0));
        let mut said = u64::MAX.to_le_bytes().to_vec();
        assert!(first_word(&mut said, 16).is_err(), "more than a token is long");
    }

    #[test]
    fn a_rank_does_not_wait_longer_for_one_who_listens_and_says_nothing() {
        let stranger = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = stranger.local_addr().expect("an address").to_string();
        let on = AtomicBool::new(false);
        let start = clock::now();
        let patience = Patience::new(Seconds(1.0), &on);
        let error = exchange(&address, TOKEN, [1, 2], b"x", patience).expect_err("no answer");
        assert!(error.to_string().contains("within 1.000 s"), "{error}");
        assert!(start.elapsed() < Seconds(30.0));
    }
}

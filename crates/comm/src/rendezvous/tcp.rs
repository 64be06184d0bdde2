//! Ranks meet over TCP at the first one, which listens.
//!
//! Each side gives a nonce and proves by tags that it knows the token:
//!
//! | from | message |
//! | --- | --- |
//! | another rank | its nonce |
//! | the first | its nonce, and a tag of both nonces |
//! | the other | its rank, and a tag of both nonces and the rank |
//! | the other | what it says of itself, and a tag of both nonces, the rank and what it says |
//! | the first | what each rank says of itself, each with a tag of both nonces, that rank and it |
//!
//! The nonces are new for each connection, so that no message is of use in another. An attacker
//! between two ranks can read and withhold messages, but can neither change nor make one.
//!
//! Whoever connects is heard a few bytes at a time beside all others, so that nobody is waited for
//! alone. A stranger may send no more than two short messages, takes one of [`STRANGERS_MAX`]
//! places, and loses it after [`POLITE`], or to one who came later.

use super::{
    BYTES_MAX, MeetingError, PAUSE, Patience, Seat, broken,
    token::{NONCE, TAG, Token},
};
use crate::random::random;
use fizeau_device::clock::{self, Moment};
use fizeau_domain::units::Seconds;
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    thread,
    time::Duration,
};

/// Who has not shown the token in this time is a stranger.
const POLITE: Seconds = Seconds(5.0);

/// Connections whose token is not known yet, at once.
const STRANGERS_MAX: usize = 256;

/// Longest wait for one address of the first rank.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Gives this rank's bytes and gets those of all, by rank.
pub(super) fn exchange(
    address: &str,
    token: &Token,
    seat: Seat,
    mine: &[u8],
    patience: Patience<'_>,
) -> Result<Vec<Vec<u8>>, MeetingError> {
    if seat[0] == 0 {
        serve(address, token, seat, mine, patience)
    } else {
        visit(address, token, seat, mine, patience)
    }
}

/// What a tag is of, besides the nonces of its connection.
#[derive(Clone, Copy)]
enum Proof<'p> {
    /// The first rank knows the token.
    First,
    /// Another rank does.
    Other(u32),
    /// A rank says this of itself.
    Said(u32, &'p [u8]),
    /// The first rank says that a rank has said this.
    Told(u32, &'p [u8]),
}

/// The nonces of a connection: that of the rank that came, and that of the first one.
#[derive(Clone, Copy)]
struct Nonces([[u8; NONCE]; 2]);

impl Nonces {
    fn with_parts<R>(&self, proof: Proof<'_>, use_them: impl FnOnce(&[&[u8]]) -> R) -> R {
        let (kind, rank, bytes): (&[u8], u32, &[u8]) = match proof {
            Proof::First => (b"tcp first", 0, b""),
            Proof::Other(rank) => (b"tcp other", rank, b""),
            Proof::Said(rank, bytes) => (b"tcp said", rank, bytes),
            Proof::Told(rank, bytes) => (b"tcp told", rank, bytes),
        };
        use_them(&[kind, &self.0[0], &self.0[1], &rank.to_le_bytes(), bytes])
    }

    fn tag(&self, token: &Token, proof: Proof<'_>) -> [u8; TAG] {
        self.with_parts(proof, |parts| token.tag(parts))
    }

    /// An error where a tag is not that of what it should prove.
    fn check(&self, token: &Token, proof: Proof<'_>, tag: &[u8]) -> io::Result<()> {
        let is_right = self.with_parts(proof, |parts| token.verifies(parts, tag));
        if is_right { Ok(()) } else { Err(io::Error::other("it has another token")) }
    }
}

/// How far one has come who has connected to the first rank.
#[derive(Clone, Copy)]
enum Progress {
    /// It has said nothing yet.
    Connected,
    /// It has been given a nonce.
    Challenged(Nonces),
    /// It has proved that it is this rank.
    Proved(Nonces, u32),
}

/// One who has connected to the first rank.
struct Visitor<S> {
    stream: S,
    came: Moment,
    /// What it has sent and was not yet understood.
    sent: Vec<u8>,
    progress: Progress,
}

/// What one who has connected says: [`super::hear`].
pub(super) fn hear(
    token: &Token,
    size: u32,
    stream: impl Read + Write,
) -> io::Result<Option<(u32, Vec<u8>)>> {
    let heard = Visitor::new(stream).hear(token, size)?;
    Ok(heard.map(|(_, rank, said)| (rank, said)))
}

impl<S: Read + Write> Visitor<S> {
    fn new(stream: S) -> Visitor<S> {
        let (came, sent) = (clock::now(), Vec::new());
        Visitor { stream, came, sent, progress: Progress::Connected }
    }

    fn is_ours(&self) -> bool {
        matches!(self.progress, Progress::Proved(..))
    }

    /// Length of the next message at most.
    fn longest(&self) -> usize {
        match self.progress {
            Progress::Connected => NONCE,
            Progress::Challenged(_) => 4 + TAG,
            Progress::Proved(..) => TAG + BYTES_MAX,
        }
    }

    /// Hears what has come, without waiting. Its nonces, rank and what it says of itself, once that
    /// is whole; an error where it is none of ours.
    fn hear(&mut self, token: &Token, size: u32) -> io::Result<Option<(Nonces, u32, Vec<u8>)>> {
        let mut chunk = [0; 4096];
        loop {
            // Nobody is heard further than to the end of the message that is due.
            let most = (8 + self.longest()).saturating_sub(self.sent.len()).min(chunk.len());
            match self.stream.read(&mut chunk[..most]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.sent.extend(&chunk[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let longest = self.longest();
            let Some(message) = first_word(&mut self.sent, longest)? else { continue };
            match self.progress {
                Progress::Connected => {
                    let theirs = message.try_into();
                    let theirs = theirs.map_err(|_| io::Error::other("no nonce of ours"))?;
                    let ours = random()?;
                    let nonces = Nonces([theirs, ours]);
                    let proof = nonces.tag(token, Proof::First);
                    // A few bytes, which a new connection has room for.
                    self.stream.write_all(&framed(&[&ours, &proof]))?;
                    self.progress = Progress::Challenged(nonces);
                }
                Progress::Challenged(nonces) => {
                    let (rank, tag) = number_and_rest(&message)?;
                    nonces.check(token, Proof::Other(rank), tag)?;
                    if !(1..size).contains(&rank) {
                        return Err(io::Error::other("no rank of ours"));
                    }
                    self.progress = Progress::Proved(nonces, rank);
                }
                Progress::Proved(nonces, rank) => {
                    let said = checked(&nonces, token, &message, |said| Proof::Said(rank, said))?;
                    return Ok(Some((nonces, rank, said)));
                }
            }
        }
    }

    fn is_stranger(&self) -> bool {
        !self.is_ours() && self.came.elapsed() > POLITE
    }
}

/// The number that a message begins with, and what follows.
fn number_and_rest(message: &[u8]) -> io::Result<(u32, &[u8])> {
    let split = message.split_first_chunk::<4>();
    let (number, rest) = split.ok_or_else(|| io::Error::other("no rank of ours"))?;
    Ok((u32::from_le_bytes(*number), rest))
}

/// What follows the tag that a message begins with, where the tag is right.
fn checked(
    nonces: &Nonces,
    token: &Token,
    message: &[u8],
    proof: impl FnOnce(&[u8]) -> Proof<'_>,
) -> io::Result<Vec<u8>> {
    let split = message.split_at_checked(TAG);
    let (tag, said) = split.ok_or_else(|| io::Error::other("it has no tag"))?;
    nonces.check(token, proof(said), tag)?;
    Ok(said.to_vec())
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

/// A message of some parts, led by its length.
fn framed(parts: &[&[u8]]) -> Vec<u8> {
    let message = parts.concat();
    [&(message.len() as u64).to_le_bytes(), &message[..]].concat()
}

/// The first rank: hears all who connect, until all ranks have said their words.
fn serve(
    address: &str,
    token: &Token,
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
    let mut visitors: Vec<Visitor<TcpStream>> = Vec::new();
    // Those whose words are whole, by rank: the last who came as one of them.
    let mut met: Vec<Option<(TcpStream, Nonces)>> = (0..size).map(|_| None).collect();
    while let Some(missing) = words.iter().position(Option::is_none) {
        patience.go_on(missing as u32, seat, &by)?;
        while let Ok((stream, _)) = listener.accept() {
            let strangers = visitors.iter().filter(|visitor| !visitor.is_ours()).count();
            if strangers >= STRANGERS_MAX
                && let Some(first) = visitors.iter().position(|visitor| !visitor.is_ours())
            {
                visitors.remove(first);
            }
            if stream.set_nonblocking(true).is_ok() {
                visitors.push(Visitor::new(stream));
            }
            if visitors.len() > size as usize + STRANGERS_MAX {
                break;
            }
        }
        visitors.retain_mut(|visitor| match visitor.hear(token, size) {
            Ok(None) => !visitor.is_stranger(),
            Ok(Some((nonces, rank, said))) => {
                if let Ok(stream) = visitor.stream.try_clone() {
                    words[rank as usize] = Some(said);
                    met[rank as usize] = Some((stream, nonces));
                }
                false
            }
            // It is not answered. A rank whose connection broke comes again.
            Err(_) => false,
        });
        thread::sleep(PAUSE);
    }
    let all: Vec<Vec<u8>> = words.into_iter().flatten().collect();
    for (rank, met) in met.iter().enumerate() {
        let Some((stream, nonces)) = met else { continue };
        let told = (0..).zip(&all).flat_map(|(of, said): (u32, &Vec<u8>)| {
            framed(&[&nonces.tag(token, Proof::Told(of, said)), said])
        });
        let told: Vec<u8> = told.collect();
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
    token: &Token,
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
        let ours = random()?;
        stream.write_all(&framed(&[&ours]))?;
        let answer = receive(&mut stream, NONCE + TAG)?;
        let split = answer.split_first_chunk::<NONCE>();
        let (theirs, proof) = split.ok_or_else(|| io::Error::other("it gives no nonce"))?;
        let nonces = Nonces([ours, *theirs]);
        nonces.check(token, Proof::First, proof)?;
        let proof = nonces.tag(token, Proof::Other(rank));
        stream.write_all(&framed(&[&rank.to_le_bytes(), &proof]))?;
        let tag = nonces.tag(token, Proof::Said(rank, mine));
        stream.write_all(&framed(&[&tag, mine]))?;
        let told = |of: u32| {
            let message = receive(&mut stream, TAG + BYTES_MAX)?;
            checked(&nonces, token, &message, |said| Proof::Told(of, said))
        };
        (0..size).map(told).collect()
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

/// The next message, of `most` bytes at most.
fn receive(stream: &mut impl Read, longest: usize) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    stream.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > longest as u64 {
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

    fn token() -> Token {
        Token::new("0123456789abcdef0123456789abcdef".into()).expect("a token")
    }

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
                exchange(&address, &token(), [rank, 3], words.as_bytes(), patience)
                    .expect("all come")
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
            // What is no nonce has no answer; what is one has a nonce and a tag.
            for (message, answered) in [(&b"a guess"[..], 0), (&[7; NONCE], 8 + NONCE + TAG)] {
                let mut stream = connected(address);
                stream.write_all(&framed(&[message])).expect("it is written");
                // A proof without the token, and what would follow it.
                let _ = stream.write_all(&framed(&[&1u32.to_le_bytes(), &[0; TAG]]));
                let _ = stream.write_all(&framed(&[&[0; TAG], b"words of 1"]));
                let mut answer = Vec::new();
                stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
                let _ = stream.read_to_end(&mut answer);
                assert_eq!(answer.len(), answered, "{answer:?}");
            }
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
            let first = scope.spawn(|| exchange(&address, &token(), [0, 2], b"x", patience));
            let mut slow = connected(&address);
            // A length, then a byte each tenth of a second: each read of it would succeed.
            slow.write_all(&(NONCE as u64).to_le_bytes()).expect("it is heard");
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
        let error = exchange(&address, &token(), [1, 2], b"x", patience).expect_err("no answer");
        assert!(error.to_string().contains("within 1.000 s"), "{error}");
        assert!(start.elapsed() < Seconds(30.0));
    }

    /// Rank 1 talks to the first rank through a man in the middle, who changes a byte.
    fn meet_through(change: impl Fn(bool, usize, u8) -> u8 + Sync) -> [bool; 2] {
        let (behind, between) = (free(), TcpListener::bind("127.0.0.1:0").expect("a port"));
        let address = between.local_addr().expect("an address").to_string();
        let on = AtomicBool::new(false);
        let patience = Patience::new(Seconds(2.0), &on);
        thread::scope(|scope| {
            let first = scope.spawn(|| exchange(&behind, &token(), [0, 2], b"first", patience));
            let other = scope.spawn(|| exchange(&address, &token(), [1, 2], b"other", patience));
            between.set_nonblocking(true).expect("it does not wait");
            while !(first.is_finished() && other.is_finished()) {
                let Ok((one, _)) = between.accept() else {
                    thread::sleep(PAUSE);
                    continue;
                };
                one.set_nonblocking(false).expect("it waits");
                // The first rank does not listen yet, or any more: the other one comes again.
                let Ok(two) = TcpStream::connect(&behind) else { continue };
                let change = &change;
                for (from, to, is_first) in [(&one, &two, false), (&two, &one, true)] {
                    let pair = (from.try_clone(), to.try_clone());
                    let (Ok(mut from), Ok(mut to)) = pair else { continue };
                    scope.spawn(move || {
                        let (mut byte, mut at) = ([0], 0);
                        while from.read_exact(&mut byte).is_ok() {
                            byte[0] = change(is_first, at, byte[0]);
                            at += 1;
                            if to.write_all(&byte).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(std::net::Shutdown::Both);
                    });
                }
            }
            [first.join(), other.join()].map(|met| met.expect("no panic").is_ok())
        })
    }

    #[test]
    fn who_stands_between_two_ranks_cannot_change_what_they_say() {
        assert_eq!(meet_through(|_, _, byte| byte), [true, true]);
        let hello = 8 + NONCE;
        let proof = hello + 8 + 4 + TAG;
        // What rank 1 says of itself; its rank; what the first rank answers; its nonce.
        let said = proof + 8 + TAG;
        let answer = 8 + NONCE + TAG + 8 + TAG;
        for (of_first, place) in [(false, said), (false, hello + 8), (true, 8)] {
            let change = |is_first, at, byte: u8| {
                if is_first == of_first && at == place { byte ^ 1 } else { byte }
            };
            assert_eq!(meet_through(change), [false, false], "{of_first} {place}");
        }
        let change =
            |is_first, at, byte: u8| if is_first && at == answer { byte ^ 1 } else { byte };
        assert!(!meet_through(change)[1], "rank 1 does not believe what it is told");
    }
}

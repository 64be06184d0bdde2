//! Where ranks meet before anything connects them: each gives some bytes, once, and gets those of
//! all.
//!
//! Threads of one process meet in its memory, processes by MPI where there is one, else through
//! files of mode 0600 in a folder that all of them share, else by one exchange over TCP with the
//! first rank. Files and TCP need a token that nobody guesses: it is the name of the files, and who
//! connects without it is not answered. It keeps strangers out who connect, not who listen.

use super::{Communicator, mpi::Mpi};
use crate::{clock, device::DeviceError, units::Seconds};
use std::{
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    net::{TcpListener, TcpStream, ToSocketAddrs},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

/// Shortest token: 16 hexadecimal digits are 64 bits.
const TOKEN_MIN: usize = 16;

/// Longest word of one rank; a connection that says more is none of ours.
const BYTES_MAX: u64 = 1 << 20;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// What goes wrong where ranks meet.
#[derive(Debug, thiserror::Error)]
pub enum MeetingError {
    /// Somebody did not come.
    #[error("rank {rank} did not come within {limit} (of {size} ranks, by {by})")]
    Absent {
        /// Who.
        rank: u32,
        /// Of how many.
        size: u32,
        /// How long the others waited.
        limit: Seconds,
        /// Where.
        by: String,
    },
    /// No token, or one that is too short.
    #[error(
        "FIZEAU_TOKEN has to be the same on all ranks and at least {TOKEN_MIN} characters that \
         nobody guesses: export FIZEAU_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')"
    )]
    Token,
    /// FIZEAU_RENDEZVOUS is not understood.
    #[error("FIZEAU_RENDEZVOUS={0:?}: it is file:FOLDER or tcp:HOST:PORT")]
    Unknown(String),
    /// A file or a connection.
    #[error("{what}: {why}")]
    Io {
        /// Which.
        what: String,
        /// The system's words.
        why: String,
    },
    /// The engine.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

fn broken(what: impl Into<String>) -> impl FnOnce(io::Error) -> MeetingError {
    let what = what.into();
    move |error| MeetingError::Io { what, why: error.to_string() }
}

/// How ranks meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// Through the MPI that launched them.
    Mpi,
    /// Through files in this folder, with this token.
    Files(PathBuf, String),
    /// Over TCP with the first rank at this address, with this token.
    Tcp(String, String),
}

impl Way {
    /// From the environment: what `FIZEAU_RENDEZVOUS` says, else MPI.
    ///
    /// # Errors
    ///
    /// Where it says nothing that is understood, or there is no token.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Way, MeetingError> {
        let Some(text) = variable("FIZEAU_RENDEZVOUS").filter(|text| !text.is_empty()) else {
            return Ok(Way::Mpi);
        };
        let token = || {
            let plain = |token: &String| {
                token.len() >= TOKEN_MIN && token.chars().all(|c| c.is_ascii_alphanumeric())
            };
            variable("FIZEAU_TOKEN").filter(plain).ok_or(MeetingError::Token)
        };
        match text.split_once(':') {
            Some(("file", folder)) if !folder.is_empty() => Ok(Way::Files(folder.into(), token()?)),
            Some(("tcp", address)) if has_port(address) => {
                Ok(Way::Tcp(address.to_owned(), token()?))
            }
            _ if text == "mpi" => Ok(Way::Mpi),
            _ => Err(MeetingError::Unknown(text)),
        }
    }
}

/// Whether an address is a host and a port: what is none would be asked for until the deadline.
fn has_port(address: &str) -> bool {
    let split = address.rsplit_once(':');
    split.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|p| p > 0))
}

/// Where threads of one process meet.
#[derive(Default)]
pub struct Room {
    words: Mutex<Vec<Option<Vec<u8>>>>,
    came: Condvar,
}

/// A place to meet, once.
pub enum Meeting {
    /// Threads.
    Threads(Arc<Room>),
    /// MPI, which stays open.
    Mpi(Box<Mpi>),
    /// Files or TCP.
    Remote(Way),
}

/// Which rank of how many.
pub type Seat = [u32; 2];

impl Meeting {
    /// Gives this rank's bytes and gets those of all, by rank.
    ///
    /// # Errors
    ///
    /// Where somebody does not come within `limit`, or the way is blocked.
    pub fn exchange(
        &self,
        seat: Seat,
        mine: &[u8],
        limit: Seconds,
    ) -> Result<Vec<Vec<u8>>, MeetingError> {
        match self {
            Meeting::Threads(room) => room.exchange(seat, mine, limit),
            Meeting::Mpi(mpi) => Ok(mpi.all_gather_bytes(mine)?),
            Meeting::Remote(Way::Files(folder, token)) => {
                files(&folder.join(format!("fizeau-{token}")), seat, mine, limit)
            }
            Meeting::Remote(Way::Tcp(address, token)) => tcp(address, token, seat, mine, limit),
            Meeting::Remote(Way::Mpi) => Err(MeetingError::Unknown("mpi".into())),
        }
    }
}

fn absent(rank: u32, [_, size]: Seat, limit: Seconds, by: impl Into<String>) -> MeetingError {
    MeetingError::Absent { rank, size, limit, by: by.into() }
}

impl Room {
    fn exchange(
        &self,
        seat: Seat,
        mine: &[u8],
        limit: Seconds,
    ) -> Result<Vec<Vec<u8>>, MeetingError> {
        let [rank, size] = seat;
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        words.resize(size as usize, None);
        words[rank as usize] = Some(mine.to_vec());
        self.came.notify_all();
        let start = clock::now();
        loop {
            let Some(missing) = words.iter().position(Option::is_none) else {
                return Ok(words.iter().flatten().cloned().collect());
            };
            if start.elapsed() > limit {
                return Err(absent(missing as u32, seat, limit, "threads"));
            }
            let waited = self.came.wait_timeout(words, PAUSE);
            words = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Through files: each rank writes its own, reads all, and says that it has; the first then takes
/// them all away.
fn files(
    path: &Path,
    seat: Seat,
    mine: &[u8],
    limit: Seconds,
) -> Result<Vec<Vec<u8>>, MeetingError> {
    let of = |kind: &str| PathBuf::from(format!("{}.{}{kind}", path.display(), seat[0]));
    let met = exchange_files(path, seat, mine, limit);
    if met.is_err() {
        // Who comes with the same token later must not take them for those of a rank that is there.
        for kind in [".new", "", ".read"] {
            // What was never written is not there.
            let _ = fs::remove_file(of(kind));
        }
    }
    met
}

fn exchange_files(
    path: &Path,
    seat: Seat,
    mine: &[u8],
    limit: Seconds,
) -> Result<Vec<Vec<u8>>, MeetingError> {
    let [rank, size] = seat;
    let of = |rank: u32, kind: &str| PathBuf::from(format!("{}.{rank}{kind}", path.display()));
    // The file's name is not said: nobody else is to know the token in it.
    let folder = path.parent().unwrap_or(path).display().to_string();
    let blocked = || broken(format!("the ranks cannot meet in {folder}"));
    let start = clock::now();
    let wait = |path: PathBuf, rank: u32| loop {
        match fs::read(&path) {
            Ok(bytes) => return Ok(bytes),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(blocked()(error));
            }
            Err(_) if start.elapsed() > limit => {
                return Err(absent(rank, seat, limit, "files"));
            }
            Err(_) => thread::sleep(PAUSE),
        }
    };
    let put = |kind: &str, bytes: &[u8]| {
        let (hidden, shown) = (of(rank, ".new"), of(rank, kind));
        let new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&hidden);
        new.and_then(|mut file| file.write_all(bytes))
            .and_then(|()| fs::rename(&hidden, &shown))
            .map_err(blocked())
    };
    put("", mine)?;
    let all: Vec<Vec<u8>> =
        (0..size).map(|peer| wait(of(peer, ""), peer)).collect::<Result<_, _>>()?;
    put(".read", &[])?;
    if rank == 0 {
        for peer in 0..size {
            wait(of(peer, ".read"), peer)?;
        }
        for peer in 0..size {
            for kind in ["", ".read"] {
                // What stays is small, and nobody reads it.
                let _ = fs::remove_file(of(peer, kind));
            }
        }
    }
    Ok(all)
}

/// Over TCP: the first rank listens, the others connect, show the first half of the token, are
/// shown the second, and give their bytes for those of all.
fn tcp(
    address: &str,
    token: &str,
    seat: Seat,
    mine: &[u8],
    limit: Seconds,
) -> Result<Vec<Vec<u8>>, MeetingError> {
    let (ours, theirs) = token.split_at(token.len() / 2);
    if seat[0] == 0 {
        serve(address, [ours, theirs], seat, mine, limit)
    } else {
        visit(address, [ours, theirs], seat, mine, limit)
    }
}

fn serve(
    address: &str,
    [ours, theirs]: [&str; 2],
    seat: Seat,
    mine: &[u8],
    limit: Seconds,
) -> Result<Vec<Vec<u8>>, MeetingError> {
    let [_, size] = seat;
    let by = || format!("tcp {address}");
    let listener = TcpListener::bind(address).map_err(broken(by()))?;
    listener.set_nonblocking(true).map_err(broken(by()))?;
    let mut words: Vec<Option<Vec<u8>>> = vec![None; size as usize];
    words[0] = Some(mine.to_vec());
    let mut visitors = Vec::new();
    let start = clock::now();
    while let Some(missing) = words.iter().position(Option::is_none) {
        if start.elapsed() > limit {
            return Err(absent(missing as u32, seat, limit, by()));
        }
        match listener.accept() {
            Ok((mut stream, _)) => {
                // A stranger is not answered, and whoever stays silent is not waited for.
                if let Ok((rank, said)) = welcome(&mut stream, ours, theirs, size) {
                    words[rank as usize] = Some(said);
                    visitors.push(stream);
                }
            }
            Err(_) => thread::sleep(PAUSE),
        }
    }
    let all: Vec<Vec<u8>> = words.into_iter().flatten().collect();
    for mut stream in visitors {
        for bytes in &all {
            send(&mut stream, bytes).map_err(broken(by()))?;
        }
    }
    Ok(all)
}

fn welcome(
    stream: &mut TcpStream,
    ours: &str,
    theirs: &str,
    size: u32,
) -> io::Result<(u32, Vec<u8>)> {
    const POLITE: Duration = Duration::from_secs(5);
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(POLITE))?;
    stream.set_write_timeout(Some(POLITE))?;
    let shown = receive(stream)?;
    if !same(&shown, ours.as_bytes()) {
        return Err(io::Error::other("another token"));
    }
    send(stream, theirs.as_bytes())?;
    let rank = receive(stream)?.try_into().map(u32::from_le_bytes);
    let said = receive(stream)?;
    match rank {
        Ok(rank) if rank > 0 && rank < size => Ok((rank, said)),
        _ => Err(io::Error::other("no rank of this world")),
    }
}

fn visit(
    address: &str,
    [ours, theirs]: [&str; 2],
    seat: Seat,
    mine: &[u8],
    limit: Seconds,
) -> Result<Vec<Vec<u8>>, MeetingError> {
    let [rank, size] = seat;
    let start = clock::now();
    let wait = Duration::from_secs_f64(limit.0.max(1.0));
    let attempt = || -> io::Result<Vec<Vec<u8>>> {
        let place = address.to_socket_addrs()?.next();
        let place = place.ok_or_else(|| io::Error::other("no such host"))?;
        let mut stream = TcpStream::connect_timeout(&place, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(wait))?;
        send(&mut stream, ours.as_bytes())?;
        if !same(&receive(&mut stream)?, theirs.as_bytes()) {
            return Err(io::Error::other("the first rank has another token"));
        }
        send(&mut stream, &rank.to_le_bytes())?;
        send(&mut stream, mine)?;
        (0..size).map(|_| receive(&mut stream)).collect()
    };
    loop {
        match attempt() {
            Ok(all) => return Ok(all),
            Err(error) if start.elapsed() > limit => {
                return Err(broken(format!("tcp {address}, within {limit}"))(error));
            }
            // The first rank may not listen yet.
            Err(_) => thread::sleep(PAUSE * 5),
        }
    }
}

/// In a time that does not tell how much was right.
fn same(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |seen, (a, b)| seen | (a ^ b));
    one.len() == other.len() && differences == 0
}

fn send(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(&(bytes.len() as u64).to_le_bytes())?;
    stream.write_all(bytes)
}

fn receive(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    stream.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > BYTES_MAX {
        return Err(io::Error::other("too long"));
    }
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";
    const LIMIT: Seconds = Seconds(60.0);

    /// What each rank gets where all come.
    fn all(meet: impl Fn(Seat, &[u8]) -> Result<Vec<Vec<u8>>, MeetingError> + Sync) {
        thread::scope(|scope| {
            let come = |rank: u32| {
                let words = format!("words of {rank}");
                meet([rank, 3], words.as_bytes()).expect("all come")
            };
            let came: Vec<_> = (0..3).map(|rank| scope.spawn(move || come(rank))).collect();
            for rank in came {
                let all = rank.join().expect("no panic");
                let texts: Vec<_> = all.iter().map(|b| String::from_utf8_lossy(b)).collect();
                assert_eq!(texts, ["words of 0", "words of 1", "words of 2"]);
            }
        });
    }

    #[test]
    fn threads_meet_in_memory() {
        let room = Room::default();
        all(|seat, mine| room.exchange(seat, mine, LIMIT));
        let alone = Room::default().exchange([1, 2], b"", Seconds(0.1)).expect_err("alone");
        assert!(alone.to_string().starts_with("rank 0 did not come within"), "{alone}");
    }

    #[test]
    fn processes_meet_through_files_that_nobody_else_reads_and_that_go_away() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(format!("fizeau-{TOKEN}"));
        all(|seat, mine| files(&path, seat, mine, LIMIT));
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0);
        thread::scope(|scope| {
            let alone = scope.spawn(|| files(&path, [0, 2], b"x", Seconds(2.0)));
            let own = format!("{}.0", path.display());
            let mut permissions = None;
            while permissions.is_none() && !alone.is_finished() {
                permissions = fs::metadata(&own).ok().map(|file| file.permissions());
            }
            let permissions = permissions.expect("it is there while others are waited for");
            assert_eq!(std::os::unix::fs::PermissionsExt::mode(&permissions) & 0o777, 0o600);
            let error = alone.join().expect("it ends").expect_err("alone");
            assert!(error.to_string().contains("rank 1 did not come"), "{error}");
        });
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0, "nothing stays");
        let nowhere = Path::new("/nowhere").join(format!("fizeau-{TOKEN}"));
        let said = files(&nowhere, [1, 2], b"x", LIMIT).expect_err("no folder").to_string();
        assert!(said.contains("cannot meet in /nowhere: ") && !said.contains(TOKEN), "{said}");
    }

    #[test]
    fn processes_meet_over_tcp_and_strangers_are_not_answered() {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("an address").to_string();
        drop(free);
        thread::scope(|scope| {
            scope.spawn(|| {
                // One who has no token, again and again.
                for _ in 0..50 {
                    if let Ok(mut stream) = TcpStream::connect(&address) {
                        let _ = send(&mut stream, b"a guess");
                        let mut answer = Vec::new();
                        let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
                        let read = stream.read_to_end(&mut answer);
                        assert!(read.is_err() || answer.is_empty(), "{answer:?}");
                        return;
                    }
                    thread::sleep(PAUSE);
                }
            });
            all(|seat, mine| tcp(&address, TOKEN, seat, mine, LIMIT));
        });
    }

    #[test]
    fn ways_are_read_from_the_environment() {
        let of = |rendezvous: &str, token: &str| {
            Way::of(|name| match name {
                "FIZEAU_RENDEZVOUS" => Some(rendezvous.to_owned()),
                "FIZEAU_TOKEN" => Some(token.to_owned()),
                _ => None,
            })
        };
        assert_eq!(Way::of(|_| None).ok(), Some(Way::Mpi));
        let files = Way::Files("/shared".into(), TOKEN.into());
        assert_eq!(of("file:/shared", TOKEN).ok(), Some(files));
        let tcp = Way::Tcp("n1:4000".into(), TOKEN.into());
        assert_eq!(of("tcp:n1:4000", TOKEN).ok(), Some(tcp));
        assert!(matches!(of("tcp:n1:4000", "short"), Err(MeetingError::Token)));
        assert!(matches!(of("file:/shared", "../../../../etc/x"), Err(MeetingError::Token)));
        for address in ["tcp:n1", "tcp:n1:", "tcp:n1:99999", "tcp::4000", "tcp:n1:0"] {
            assert!(matches!(of(address, TOKEN), Err(MeetingError::Unknown(_))), "{address}");
        }
        assert!(matches!(of("pigeon", TOKEN), Err(MeetingError::Unknown(_))));
    }
}

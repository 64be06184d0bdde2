//! Where ranks meet before anything connects them: each gives some bytes, once, and gets those of
//! all.
//!
//! Threads of one process meet in its memory, processes by MPI where there is one, else through
//! files of mode 0600 in a folder that all of them share, else by one exchange over TCP with the
//! first rank. Files and TCP need a token that nobody guesses: it is the name of the files, and who
//! connects without it is not answered. It keeps strangers out who connect, not who listen.

mod tcp;

use super::{Communicator, mpi::Mpi};
use crate::{
    clock::{self, Moment},
    device::DeviceError,
    units::Seconds,
};
use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// Shortest token: 16 hexadecimal digits are 64 bits.
const TOKEN_MIN: usize = 16;

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
    /// Asked to end while others had not come.
    #[error("interrupted while the ranks met; nothing was measured")]
    Interrupted,
    /// The engine.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// How long a rank waits for the others: until a deadline, or until it is asked to end.
#[derive(Clone, Copy)]
pub struct Patience<'p> {
    limit: Seconds,
    start: Moment,
    interrupted: &'p AtomicBool,
}

impl<'p> Patience<'p> {
    /// From now on; a flag that becomes true ends it.
    pub fn new(limit: Seconds, interrupted: &'p AtomicBool) -> Patience<'p> {
        Patience { limit, start: clock::now(), interrupted }
    }

    /// What is left, which is something; past the deadline none.
    fn left(&self) -> Result<Option<Duration>, MeetingError> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(MeetingError::Interrupted);
        }
        let left = self.limit.0 - self.start.elapsed().0;
        Ok((left > 0.0).then(|| Duration::from_secs_f64(left).max(Duration::from_millis(1))))
    }

    /// Goes on while there is time left: else it is this rank that did not come.
    fn go_on(&self, missing: u32, [_, size]: Seat, by: &str) -> Result<(), MeetingError> {
        match self.left()? {
            Some(_) => Ok(()),
            None => {
                Err(MeetingError::Absent { rank: missing, size, limit: self.limit, by: by.into() })
            }
        }
    }
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
    /// Where somebody does not come in time, the way is blocked, or this is asked to end. MPI waits
    /// as long as its launcher lets it.
    pub fn exchange(
        &self,
        seat: Seat,
        mine: &[u8],
        patience: Patience<'_>,
    ) -> Result<Vec<Vec<u8>>, MeetingError> {
        match self {
            Meeting::Threads(room) => room.exchange(seat, mine, patience),
            Meeting::Mpi(mpi) => Ok(mpi.all_gather_bytes(mine)?),
            Meeting::Remote(Way::Files(folder, token)) => {
                files(&folder.join(format!("fizeau-{token}")), seat, mine, patience)
            }
            Meeting::Remote(Way::Tcp(address, token)) => {
                tcp::exchange(address, token, seat, mine, patience)
            }
            Meeting::Remote(Way::Mpi) => Err(MeetingError::Unknown("mpi".into())),
        }
    }
}

impl Room {
    fn exchange(
        &self,
        seat: Seat,
        mine: &[u8],
        patience: Patience<'_>,
    ) -> Result<Vec<Vec<u8>>, MeetingError> {
        let [rank, size] = seat;
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        words.resize(size as usize, None);
        words[rank as usize] = Some(mine.to_vec());
        self.came.notify_all();
        loop {
            let Some(missing) = words.iter().position(Option::is_none) else {
                return Ok(words.iter().flatten().cloned().collect());
            };
            patience.go_on(missing as u32, seat, "threads")?;
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
    patience: Patience<'_>,
) -> Result<Vec<Vec<u8>>, MeetingError> {
    let of = |kind: &str| PathBuf::from(format!("{}.{}{kind}", path.display(), seat[0]));
    let met = exchange_files(path, seat, mine, patience);
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
    patience: Patience<'_>,
) -> Result<Vec<Vec<u8>>, MeetingError> {
    let [rank, size] = seat;
    let of = |rank: u32, kind: &str| PathBuf::from(format!("{}.{rank}{kind}", path.display()));
    // The file's name is not said: nobody else is to know the token in it.
    let folder = path.parent().unwrap_or(path).display().to_string();
    let blocked = || broken(format!("the ranks cannot meet in {folder}"));
    let wait = |path: PathBuf, rank: u32| loop {
        match fs::read(&path) {
            Ok(bytes) => return Ok(bytes),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(blocked()(error));
            }
            Err(_) => {
                patience.go_on(rank, seat, "files")?;
                thread::sleep(PAUSE);
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    static ON: AtomicBool = AtomicBool::new(false);

    fn within(seconds: f64) -> Patience<'static> {
        Patience::new(Seconds(seconds), &ON)
    }

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
        all(|seat, mine| room.exchange(seat, mine, within(60.0)));
        let alone = Room::default().exchange([1, 2], b"", within(0.1)).expect_err("alone");
        assert!(alone.to_string().starts_with("rank 0 did not come within"), "{alone}");
    }

    #[test]
    fn processes_meet_through_files_that_nobody_else_reads_and_that_go_away() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(format!("fizeau-{TOKEN}"));
        all(|seat, mine| files(&path, seat, mine, within(60.0)));
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0);
        thread::scope(|scope| {
            let alone = scope.spawn(|| files(&path, [0, 2], b"x", within(2.0)));
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
        let said = files(&nowhere, [1, 2], b"x", within(60.0)).expect_err("no folder").to_string();
        assert!(said.contains("cannot meet in /nowhere: ") && !said.contains(TOKEN), "{said}");
    }

    #[test]
    fn who_is_asked_to_end_does_not_wait_for_the_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(format!("fizeau-{TOKEN}"));
        let asked = AtomicBool::new(true);
        let patience = Patience::new(Seconds(1e4), &asked);
        let ended = files(&path, [0, 2], b"x", patience);
        assert!(matches!(ended, Err(MeetingError::Interrupted)), "{ended:?}");
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0, "nothing stays");
        let ended = Room::default().exchange([0, 2], b"x", patience);
        assert!(matches!(ended, Err(MeetingError::Interrupted)), "{ended:?}");
        let ended = tcp::exchange("127.0.0.1:9", TOKEN, [1, 2], b"x", patience);
        assert!(matches!(ended, Err(MeetingError::Interrupted)), "{ended:?}");
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

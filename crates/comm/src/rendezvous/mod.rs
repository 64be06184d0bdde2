//! Where ranks meet before anything connects them: each gives some bytes, once, and gets those of
//! all.
//!
//! Threads of one process meet in its memory, processes by MPI where there is one, else through
//! files of mode 0600 in a folder that all of them share, else by one exchange over TCP with the
//! first rank. Files and TCP need a secret [`Token`]. It is never sent: ranks prove by
//! tags that they know it, and nothing is believed that has no tag. What ranks say can be read by
//! whoever listens or can read their files; it cannot be changed.

mod tcp;
pub mod token;

use super::{Communicator, mpi::Mpi};
use crate::random::random;
use fizeau_device::{
    DeviceError,
    clock::{self, Moment},
};
use fizeau_domain::{text::hex, units::Seconds};
use std::{
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};
use token::{TAG, TOKEN_MIN, Token};

/// Longest that one rank may say of itself, in bytes.
const BYTES_MAX: usize = 1 << 20;

/// Polling interval of who waits for another rank.
const PAUSE: Duration = Duration::from_millis(20);

/// What goes wrong where ranks meet.
#[derive(Debug, thiserror::Error)]
pub enum MeetingError {
    /// A rank did not come.
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

    /// Continues while there is time left; else this rank is the one that did not come.
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
pub enum MeetingWay {
    /// Through the MPI that launched them.
    Mpi,
    /// Through files in this folder, with this token.
    Files(PathBuf, Token),
    /// Over TCP with the first rank at this address, with this token.
    Tcp(String, Token),
}

impl MeetingWay {
    /// From the environment: what `FIZEAU_RENDEZVOUS` says, else MPI.
    ///
    /// # Errors
    ///
    /// Where it says nothing that is understood, or there is no token.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Result<MeetingWay, MeetingError> {
        let Some(text) = variable("FIZEAU_RENDEZVOUS").filter(|text| !text.is_empty()) else {
            return Ok(MeetingWay::Mpi);
        };
        let token = || variable("FIZEAU_TOKEN").and_then(Token::new).ok_or(MeetingError::Token);
        match text.split_once(':') {
            Some(("file", folder)) if !folder.is_empty() => {
                Ok(MeetingWay::Files(folder.into(), token()?))
            }
            Some(("tcp", address)) if has_port(address) => {
                Ok(MeetingWay::Tcp(address.to_owned(), token()?))
            }
            _ if text == "mpi" => Ok(MeetingWay::Mpi),
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
    Remote(MeetingWay),
}

/// Which rank of how many.
pub type Seat = [u32; 2];

/// What the first of `size` ranks hears over TCP from one who has connected, as far as `stream`
/// tells it without waiting: its rank and what it says of itself, once it has proved that it knows
/// the token; none where more has to come. Nothing that strangers send goes further than this.
///
/// # Errors
/// Where it is none of ours, or the connection breaks.
pub fn hear(
    token: &Token,
    size: u32,
    stream: impl Read + Write,
) -> io::Result<Option<(u32, Vec<u8>)>> {
    tcp::hear(token, size, stream)
}

impl Meeting {
    /// Gives this rank's bytes and gets those of all, by rank.
    ///
    /// # Errors
    ///
    /// Where a rank does not come in time, the way is blocked, or this is asked to end. MPI waits
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
            Meeting::Remote(MeetingWay::Files(folder, token)) => {
                files(folder, token, seat, mine, patience)
            }
            Meeting::Remote(MeetingWay::Tcp(address, token)) => {
                tcp::exchange(address, token, seat, mine, patience)
            }
            Meeting::Remote(MeetingWay::Mpi) => Err(MeetingError::Unknown("mpi".into())),
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
    folder: &Path,
    token: &Token,
    seat: Seat,
    mine: &[u8],
    patience: Patience<'_>,
) -> Result<Vec<Vec<u8>>, MeetingError> {
    let place = Files { folder, token, name: token.file_name(), seat };
    let met = place.exchange(mine, patience);
    if met.is_err() {
        // Who comes with the same token later must not take them for those of a rank that is there.
        for kind in ["", READ] {
            // What was never written is not there.
            let _ = fs::remove_file(place.of(seat[0], kind));
        }
    }
    met
}

/// What a file's name ends with that says that its rank has read all others'.
const READ: &str = ".read";

/// The files of ranks that meet in a folder. Each begins with a tag of what follows, of the rank
/// and of the kind of file, so that nobody without the token can plant, change or exchange one.
struct Files<'f> {
    folder: &'f Path,
    token: &'f Token,
    name: String,
    seat: Seat,
}

impl Files<'_> {
    fn of(&self, rank: u32, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{rank}{kind}", self.name))
    }

    fn blocked(&self) -> impl FnOnce(io::Error) -> MeetingError {
        broken(format!("the ranks cannot meet in {}", self.folder.display()))
    }

    fn tagged(&self, rank: u32, kind: &str, bytes: &[u8]) -> [u8; TAG] {
        self.token.tag(&[b"file", kind.as_bytes(), &rank.to_le_bytes(), bytes])
    }

    fn exchange(&self, mine: &[u8], patience: Patience<'_>) -> Result<Vec<Vec<u8>>, MeetingError> {
        let [rank, size] = self.seat;
        self.put("", mine).map_err(self.blocked())?;
        let all: Vec<Vec<u8>> =
            (0..size).map(|peer| self.wait(peer, "", patience)).collect::<Result<_, _>>()?;
        self.put(READ, &[]).map_err(self.blocked())?;
        if rank == 0 {
            for peer in 0..size {
                self.wait(peer, READ, patience)?;
            }
            for peer in 0..size {
                for kind in ["", READ] {
                    // What stays is small, and nobody reads it.
                    let _ = fs::remove_file(self.of(peer, kind));
                }
            }
        }
        Ok(all)
    }

    /// Writes this rank's file as a whole: under another name until it is.
    fn put(&self, kind: &str, bytes: &[u8]) -> io::Result<()> {
        let rank = self.seat[0];
        let hidden = self.of(rank, &format!(".{}", hex(&random::<8>()?)));
        let new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&hidden);
        let written = new.and_then(|mut file| {
            file.write_all(&self.tagged(rank, kind, bytes))?;
            file.write_all(bytes)?;
            fs::rename(&hidden, self.of(rank, kind))
        });
        if written.is_err() {
            // The error of what failed first is the one to tell.
            let _ = fs::remove_file(&hidden);
        }
        written
    }

    /// Waits for a rank's file. What has no tag of ours is as if it were not there.
    fn wait(&self, rank: u32, kind: &str, patience: Patience<'_>) -> Result<Vec<u8>, MeetingError> {
        let path = self.of(rank, kind);
        loop {
            match read(&path) {
                Ok(said) => {
                    if let Some((tag, bytes)) = said.split_at_checked(TAG)
                        && self.is_ours(rank, kind, bytes, tag)
                    {
                        return Ok(bytes.to_vec());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(self.blocked()(error)),
            }
            patience.go_on(rank, self.seat, "files")?;
            thread::sleep(PAUSE);
        }
    }

    fn is_ours(&self, rank: u32, kind: &str, bytes: &[u8], tag: &[u8]) -> bool {
        let parts: [&[u8]; 4] = [b"file", kind.as_bytes(), &rank.to_le_bytes(), bytes];
        self.token.verifies(&parts, tag)
    }
}

/// Reads a plain file, of which no more than a rank may say; of anything else nothing.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    use rustix::fs::OFlags;
    // A link is not followed and a FIFO not waited for.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Ok(Vec::new());
        }
        opened => opened?,
    };
    let mut bytes = Vec::new();
    if file.metadata()?.is_file() {
        file.take((TAG + BYTES_MAX) as u64).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn token_of_test() -> Token {
        Token::new(TOKEN.into()).expect("a token")
    }

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
        let path = folder.path();
        all(|seat, mine| files(path, &token_of_test(), seat, mine, within(60.0)));
        assert_eq!(fs::read_dir(path).expect("it is there").count(), 0);
        thread::scope(|scope| {
            let alone = scope.spawn(|| files(path, &token_of_test(), [0, 2], b"x", within(2.0)));
            let own = path.join(format!("{}.0", token_of_test().file_name()));
            let mut permissions = None;
            while permissions.is_none() && !alone.is_finished() {
                permissions = fs::metadata(&own).ok().map(|file| file.permissions());
            }
            let permissions = permissions.expect("it is there while others are waited for");
            assert_eq!(std::os::unix::fs::PermissionsExt::mode(&permissions) & 0o777, 0o600);
            let error = alone.join().expect("it ends").expect_err("alone");
            assert!(error.to_string().contains("rank 1 did not come"), "{error}");
        });
        assert_eq!(fs::read_dir(path).expect("it is there").count(), 0, "nothing stays");
        let nowhere = files(Path::new("/nowhere"), &token_of_test(), [1, 2], b"x", within(60.0));
        let said = nowhere.expect_err("no folder").to_string();
        assert!(said.contains("cannot meet in /nowhere: ") && !said.contains(TOKEN), "{said}");
    }

    /// What stands in a file of rank 1 for rank 0 to find, and whether it is believed.
    fn planted(plant: impl Fn(&Path, &Files<'_>)) -> Result<Vec<Vec<u8>>, MeetingError> {
        let (folder, token) = (tempfile::tempdir().expect("a folder"), token_of_test());
        let name = token.file_name();
        let place = Files { folder: folder.path(), token: &token, name, seat: [1, 2] };
        plant(&place.of(1, ""), &place);
        files(folder.path(), &token, [0, 2], b"x", within(0.2))
    }

    #[test]
    fn what_is_planted_without_the_token_is_not_believed() {
        let is_absent = |met: Result<Vec<Vec<u8>>, MeetingError>| {
            matches!(met, Err(MeetingError::Absent { rank: 1, .. }))
        };
        assert!(is_absent(planted(|path, _| fs::write(path, b"{}").expect("it is written"))));
        assert!(is_absent(planted(|path, _| {
            std::os::unix::fs::symlink("/etc/passwd", path).expect("a link");
        })));
        assert!(is_absent(planted(|path, _| {
            let mode = rustix::fs::Mode::RUSR;
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)
                .expect("a FIFO");
        })));
        // Another rank's file, or of another kind, in this one's place; one that was changed.
        for (rank, kind, changed) in [(0, "", false), (1, READ, false), (1, "", true)] {
            assert!(is_absent(planted(|path, place| {
                let said = if changed { b"changed" } else { b"as said" };
                let tag = place.tagged(rank, kind, b"as said");
                fs::write(path, [&tag[..], said].concat()).expect("it is written");
            })));
        }
        // With the right tag rank 1 is there, and has only not said yet that it has read all.
        let met = planted(|path, place| {
            let tag = place.tagged(1, "", b"as said");
            fs::write(path, [&tag[..], b"as said"].concat()).expect("it is written");
        });
        assert!(is_absent(met), "rank 0 waits for its second file");
    }

    #[test]
    fn who_is_asked_to_end_does_not_wait_for_the_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let asked = AtomicBool::new(true);
        let patience = Patience::new(Seconds(1e4), &asked);
        let ended = files(folder.path(), &token_of_test(), [0, 2], b"x", patience);
        assert!(matches!(ended, Err(MeetingError::Interrupted)), "{ended:?}");
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0, "nothing stays");
        let ended = Room::default().exchange([0, 2], b"x", patience);
        assert!(matches!(ended, Err(MeetingError::Interrupted)), "{ended:?}");
        let ended = tcp::exchange("127.0.0.1:9", &token_of_test(), [1, 2], b"x", patience);
        assert!(matches!(ended, Err(MeetingError::Interrupted)), "{ended:?}");
    }

    #[test]
    fn ways_are_read_from_the_environment() {
        let of = |rendezvous: &str, token: &str| {
            MeetingWay::of(|name| match name {
                "FIZEAU_RENDEZVOUS" => Some(rendezvous.to_owned()),
                "FIZEAU_TOKEN" => Some(token.to_owned()),
                _ => None,
            })
        };
        assert_eq!(MeetingWay::of(|_| None).ok(), Some(MeetingWay::Mpi));
        let files = MeetingWay::Files("/shared".into(), token_of_test());
        assert_eq!(of("file:/shared", TOKEN).ok(), Some(files));
        let tcp = MeetingWay::Tcp("n1:4000".into(), token_of_test());
        assert_eq!(of("tcp:n1:4000", TOKEN).ok(), Some(tcp));
        assert!(matches!(of("tcp:n1:4000", "short"), Err(MeetingError::Token)));
        assert!(matches!(of("file:/shared", "../../../../etc/x"), Err(MeetingError::Token)));
        for address in ["tcp:n1", "tcp:n1:", "tcp:n1:99999", "tcp::4000", "tcp:n1:0"] {
            assert!(matches!(of(address, TOKEN), Err(MeetingError::Unknown(_))), "{address}");
        }
        assert!(matches!(of("pigeon", TOKEN), Err(MeetingError::Unknown(_))));
    }
}

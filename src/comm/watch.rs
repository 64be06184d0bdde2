//! Watches that no collective hangs in silence: a thread beside each rank that looks how long its
//! rank has been waiting, and ends the run with words when that is too long.

use super::board::Board;
use crate::{
    case::{Collective, CollectivePoint, Place},
    dtype::Dtype,
    measure::clock::{self, Moment},
    units::{Bytes, Seconds},
};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Between collectives a rank may be at work alone (it compares what it received), and the others
/// wait; so many deadlines, as long as its process shows that it lives.
const BETWEEN: f64 = 10.0;

/// One rank, as the others know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its host's name.
    pub host: String,
    /// Its device.
    pub device: String,
    /// Its process.
    pub process: u32,
    /// Its slot on its node's board.
    pub slot: usize,
}

/// A collective as it is enqueued.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operation {
    /// Which.
    pub collective: Collective,
    /// Element type.
    pub dtype: Dtype,
    /// Its size.
    pub message: Bytes,
}

/// What a rank waits in.
#[derive(Clone, Copy, PartialEq)]
enum Wait {
    /// A collective that is measured.
    In(Operation),
    /// The engine's own, after that collective if there was one.
    After(Option<Operation>),
}

struct State {
    rank: u32,
    peers: Vec<Peer>,
    board: Option<Board>,
    origin: Moment,
    /// Milliseconds since `origin` at which the wait began, plus one; zero while there is none.
    since: AtomicU64,
    /// Iterations entered of the operation enqueued last.
    iteration: AtomicU64,
    wait: Mutex<Wait>,
    over: AtomicBool,
}

/// What a rank tells its watch.
pub struct Watch {
    state: Arc<State>,
}

/// Called once, from the watching thread, with what is to be said. It ends the process.
pub type OnHang = Box<dyn FnOnce(String, Option<CollectivePoint>) + Send>;

impl Watch {
    /// A watch that does not look yet.
    pub fn new(rank: u32, peers: Vec<Peer>, board: Option<Board>) -> Watch {
        let state = State {
            rank,
            peers,
            board,
            origin: clock::now(),
            since: AtomicU64::new(0),
            iteration: AtomicU64::new(0),
            wait: Mutex::new(Wait::After(None)),
            over: AtomicBool::new(false),
        };
        Watch { state: Arc::new(state) }
    }

    /// Starts to look.
    ///
    /// # Errors
    /// Where there can be no thread.
    pub fn start(&self, deadline: Seconds, on_hang: OnHang) -> std::io::Result<()> {
        let state = Arc::clone(&self.state);
        thread::Builder::new().name("watch".into()).spawn(move || state.look(deadline, on_hang))?;
        Ok(())
    }

    /// Runs a collective that is measured.
    pub fn operation<T>(&self, operation: Operation, run: impl FnOnce() -> T) -> T {
        self.state.iteration.store(0, Ordering::Relaxed);
        self.wait(Wait::In(operation), run)
    }

    /// Enters one iteration of it.
    #[inline]
    pub fn enter(&self) {
        let state = &*self.state;
        state.iteration.fetch_add(1, Ordering::Relaxed);
        if let Some(board) = &state.board {
            board.enter(state.me().slot);
        }
    }

    /// Runs a collective of the engine's own.
    pub fn control<T>(&self, run: impl FnOnce() -> T) -> T {
        let last = match *self.state.wait.lock().unwrap_or_else(PoisonError::into_inner) {
            Wait::In(operation) => Some(operation),
            Wait::After(operation) => operation,
        };
        self.wait(Wait::After(last), run)
    }

    fn wait<T>(&self, wait: Wait, run: impl FnOnce() -> T) -> T {
        let state = &*self.state;
        *state.wait.lock().unwrap_or_else(PoisonError::into_inner) = wait;
        state.since.store(state.now() + 1, Ordering::Release);
        let result = run();
        state.since.store(0, Ordering::Release);
        result
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::Release);
    }
}

impl State {
    fn me(&self) -> &Peer {
        &self.peers[self.rank as usize]
    }

    fn now(&self) -> u64 {
        (self.origin.elapsed().0 * 1e3) as u64
    }

    /// Those whose slots are on this board.
    fn neighbours(&self) -> impl Iterator<Item = (usize, &Peer)> {
        self.peers.iter().enumerate().filter(|(_, peer)| peer.host == self.me().host)
    }

    fn look(&self, deadline: Seconds, on_hang: OnHang) {
        // Of each rank: how often it had shown that it lives, and when that last changed.
        let mut beats: Vec<(u64, u64)> = vec![(0, self.now()); self.peers.len()];
        let limit = (deadline.0 * 1e3) as u64;
        loop {
            thread::sleep(LOOK_EVERY);
            if self.over.load(Ordering::Acquire) {
                return;
            }
            let now = self.now();
            if let Some(board) = &self.board {
                board.beat(self.me().slot);
                for (rank, peer) in self.neighbours() {
                    let seen = board.beats(peer.slot);
                    if seen != beats[rank].0 {
                        beats[rank] = (seen, now);
                    }
                }
            }
            let since = self.since.load(Ordering::Acquire);
            let waited = if since == 0 { 0 } else { now.saturating_sub(since - 1) };
            let silent: Vec<usize> = (0..beats.len())
                .filter(|&rank| self.board.is_some() && self.peers[rank].host == self.me().host)
                .filter(|&rank| now.saturating_sub(beats[rank].1) > limit)
                .collect();
            let ended = self.board.as_ref().is_some_and(Board::ended);
            if ended || self.hangs(waited, limit, &silent) {
                if let Some(board) = &self.board {
                    board.end(self.me().slot);
                }
                let (said, point) = self.say(deadline, waited, &silent);
                on_hang(said, point);
                return;
            }
        }
    }

    fn hangs(&self, waited: u64, limit: u64, silent: &[usize]) -> bool {
        match *self.wait.lock().unwrap_or_else(PoisonError::into_inner) {
            Wait::In(_) => waited > limit,
            Wait::After(_) if silent.is_empty() => waited as f64 > BETWEEN * limit as f64,
            Wait::After(_) => waited > limit,
        }
    }

    /// What there is to say: who, where, in what, and for how long.
    fn say(
        &self,
        deadline: Seconds,
        waited: u64,
        silent: &[usize],
    ) -> (String, Option<CollectivePoint>) {
        let iteration = self.iteration.load(Ordering::Relaxed);
        let wait = *self.wait.lock().unwrap_or_else(PoisonError::into_inner);
        let (place, operation) = match wait {
            Wait::In(operation) => ("in", Some(operation)),
            Wait::After(operation) => ("after", operation),
        };
        let what = operation.map_or("the first exchange".into(), |of| {
            format!("{} {} {}, iteration {iteration}", of.collective, of.dtype, of.message)
        });
        let waited = Seconds(waited as f64 / 1e3);
        let mut text = format!(
            "no answer within {deadline}: {} waited {waited} {place} {what}",
            self.name(self.rank as usize)
        );
        let culprits = self.culprits(silent);
        if culprits.is_empty() {
            text += "; every rank of this node has entered it, so look at the other nodes' \
                     messages, or at the network";
        }
        for (rank, why) in culprits {
            text += &format!("; {} {why}", self.name(rank));
        }
        let point = operation.map(|of| CollectivePoint {
            collective: of.collective,
            dtype: of.dtype,
            message: of.message,
            ranks: self.peers.len() as u32,
            place: Place::OutOfPlace,
        });
        (text, point)
    }

    fn name(&self, rank: usize) -> String {
        let Peer { host, device, process, .. } = &self.peers[rank];
        format!("rank {rank} on {host} ({device}, process {process})")
    }

    /// Who of this node keeps the others waiting, and how that shows.
    fn culprits(&self, silent: &[usize]) -> Vec<(usize, String)> {
        let Some(board) = &self.board else { return Vec::new() };
        let entered = |peer: &Peer| board.entered(peer.slot);
        let most = self.neighbours().map(|(_, peer)| entered(peer)).max().unwrap_or(0);
        let mut culprits = Vec::new();
        for (rank, peer) in self.neighbours() {
            let behind = most - entered(peer);
            if silent.contains(&rank) {
                culprits.push((rank, "does not run any more (stopped, or killed)".into()));
            } else if behind > 0 {
                culprits.push((rank, format!("has not entered it ({behind} iterations behind)")));
            }
        }
        culprits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn peers() -> Vec<Peer> {
        let peer = |rank: usize| Peer {
            host: "here".into(),
            device: "a CPU".into(),
            process: 100 + rank as u32,
            slot: rank,
        };
        (0..3).map(peer).collect()
    }

    #[test]
    fn a_rank_that_stays_away_is_named() {
        let (board, path) = Board::create(3).expect("a board");
        let others = Board::open(&path, 3).expect("the board");
        Board::remove(&path).expect("its name goes");
        let watch = Watch::new(0, peers(), Some(board));
        let (send, receive) = mpsc::channel();
        let told = send.clone();
        let hang: OnHang = Box::new(move |said, point| {
            told.send((said, point)).expect("somebody listens");
        });
        watch.start(Seconds(0.4), hang).expect("a thread");
        let operation = Operation {
            collective: Collective::AllReduce,
            dtype: Dtype::F32,
            message: Bytes(4096),
        };
        let (said, point) = watch.operation(operation, || {
            watch.enter();
            others.enter(2);
            // Rank 2 lives, rank 1 does too but stays away.
            loop {
                others.beat(1);
                others.beat(2);
                if let Ok(said) = receive.recv_timeout(Duration::from_millis(20)) {
                    return said;
                }
            }
        });
        assert!(said.contains("rank 0 on here (a CPU, process 100) waited"), "{said}");
        assert!(said.contains("in all_reduce f32 4 KiB, iteration 1"), "{said}");
        assert!(said.contains("rank 1 on here (a CPU, process 101) has not entered it"), "{said}");
        assert!(!said.contains("rank 2"), "{said}");
        assert_eq!(point.map(|point| point.ranks), Some(3));
        assert!(others.ended(), "the others are told");
    }

    #[test]
    fn nobody_is_named_while_all_goes_well() {
        let watch = Watch::new(0, peers(), None);
        let (send, receive) = mpsc::channel();
        let hang: OnHang = Box::new(move |said, _| drop(send.send(said)));
        watch.start(Seconds(0.2), hang).expect("a thread");
        for _ in 0..5 {
            watch.control(|| thread::sleep(Duration::from_millis(100)));
        }
        drop(watch);
        assert!(receive.recv_timeout(Duration::from_millis(300)).is_err());
    }
}
